// Every CUDA kernel under ThreadSanitizer, which sees each of its threads as one: two that touch the same memory
// without a barrier between them fail the program. Small shapes of more than one warp or block; a fiber takes
// milliseconds to make.
#include <cstdio>

#include "kernels/simt/fiber.h"

#if !defined(ENGINE_SIMT_TSAN)

int main() {
  std::puts("skipped: needs -fsanitize=thread");
  return 77;
}

#else

#include "engine/engine.h"
#include "tests/support/device_suite.h"
#include "tests/support/model_file.h"
#include "tests/support/ops/attention_op.h"
#include "tests/support/ops/embedding_op.h"
#include "tests/support/ops/geglu_op.h"
#include "tests/support/ops/head_logits_op.h"
#include "tests/support/ops/kv_write_op.h"
#include "tests/support/ops/logsumexp_op.h"
#include "tests/support/ops/matmul_op.h"
#include "tests/support/ops/norm_quantize_op.h"
#include "tests/support/ops/qk_norm_rope_kv_op.h"
#include "tests/support/ops/quantize_op.h"
#include "tests/support/ops/residual_norm_quantize_op.h"
#include "tests/support/ops/residual_op.h"
#include "tests/support/ops/rmsnorm_op.h"
#include "tests/support/ops/rope_op.h"
#include "tests/support/ops/sample_op.h"
#include "tests/support/ops/top_logits_op.h"

namespace engine::test {
namespace {

constexpr op::KvShape kKv = {1, 32, op::KvType::f16};

// In order and mixed up, with memory of its own each time: an address is reported once.
template <class Op>
void race(const typename Op::Shape& shape) {
  for (const DeviceRun& run : {kDeviceRuns[0], kDeviceRuns[2]}) {
    Op op(shape, 1);
    run_on_device(op, run, op.n_t());
  }
}

TEST(Race, SimpleOps) {
  race<EmbeddingOp>({gguf::Type::q8_0, op::Layout::device_planes, 8, 64, 2});
  race<RmsNormOp>({.n_t = 2, .n_i = 160});
  race<QuantizeOp>({.n_t = 2, .n_i = 160});
  race<RopeOp>({.n_t = 2, .n_h = 2, .d = 16});
  race<KvWriteOp>(
      {.kv = kKv, .rows = consecutive_rows(63, 2), .n_sequences = 1, .n_positions = 128});
  race<ResidualOp>({.n_t = 2, .n_i = 160});
  race<GegluOp>({.n_t = 2, .n_i = 160});
  race<LogSumExpOp>({.n_t = 1, .n_vocab = 300});
  race<SampleOp>({.n_t = 2, .k = 40});
  race<TopLogitsOp>({.n_t = 1, .n_vocab = 300, .k = 5});
}

TEST(Race, FusedOps) {
  race<HeadLogitsOp>({gguf::Type::q8_0, op::Layout::device_planes, 40, 39, 64, 5});
  race<NormQuantizeOp>({.n_t = 2, .n_i = 160});
  race<ResidualNormQuantizeOp>({.n_t = 2, .n_i = 160});
  race<QkNormRopeKvOp>(
      {.kv = kKv, .n_h = 2, .rows = consecutive_rows(63, 2), .n_sequences = 1, .n_positions = 128});
}

TEST(Race, Attention) {
  race<AttentionOp>({.kv = kKv, .n_h = 2, .window = 0, .rows = consecutive_rows(70, 1)});
  race<AttentionOp>(
      {.kv = kKv, .n_h = 2, .window = 0, .rows = consecutive_rows(70, 1), .n_splits = 2});
  race<AttentionOp>({.kv = kKv, .n_h = 2, .window = 20, .rows = consecutive_rows(60, 9)});
}

TEST(Race, Matmul) {
  for (const gguf::Type type :
       {gguf::Type::q8_0, gguf::Type::q5_0, gguf::Type::q4_k, gguf::Type::q6_k})
    for (const int n_t : {1, 3, 17})
      race<MatmulOp>({.type = type,
                      .layout = op::Layout::device_planes,
                      .n_out = 18,
                      .n_in = 256,
                      .n_t = n_t});
  race<MatmulOp>(
      {.type = gguf::Type::q4_0, .layout = op::Layout::rows, .n_out = 9, .n_in = 96, .n_t = 2});
  race<MatmulOp>(
      {.type = gguf::Type::f16, .layout = op::Layout::rows, .n_out = 9, .n_in = 96, .n_t = 2});
}

TEST(Race, TinyModel) {
  const auto model =
      Model::load(golden_file("tiny/tiny-gqa-Q8_0.gguf"), {.device = Device::simt, .n_threads = 1});
  ASSERT_TRUE(model) << model.status().message();
  auto session = Session::create(*model);
  ASSERT_TRUE(session) << session.status().message();
  const std::vector<Token> prompt = {2, 20, 30};
  const auto answer =
      generate(*session, {.temperature = 0}, prompt, {.max_tokens = 2, .ignore_eos = true});
  ASSERT_TRUE(answer) << answer.status().message();
  EXPECT_EQ(answer->ids.size(), 2u);
}

}  // namespace
}  // namespace engine::test

#endif
