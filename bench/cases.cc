#include "bench/cases.h"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>

#include "tests/support/ops/attention_op.h"
#include "tests/support/ops/embedding_op.h"
#include "tests/support/ops/geglu_op.h"
#include "tests/support/ops/head_screen_op.h"
#include "tests/support/ops/kv_write_op.h"
#include "tests/support/ops/logsumexp_op.h"
#include "tests/support/ops/matmul_op.h"
#include "tests/support/ops/quantize_op.h"
#include "tests/support/ops/residual_op.h"
#include "tests/support/ops/rmsnorm_op.h"
#include "tests/support/ops/rope_op.h"
#include "tests/support/ops/sample_weights_op.h"
#include "tests/support/ops/screen_tables_op.h"

namespace engine::bench {
namespace {

using gguf::Type;
using op::Layout;

constexpr int kWidth = 640, kHeads = 4, kKvHeads = 1, kHeadDim = 256, kFeedForward = 2048,
              kVocab = 262144, kWindow = 512;
constexpr std::array kDecodeRows = {1, 2, 4, 8, 16};
constexpr int kPromptRows = 512;

// Twice the largest cache, so that nothing survives a round.
std::size_t streamed_bytes() {
  std::size_t bytes = std::size_t{64} << 20;
  for (const auto& cache : benchmark::CPUInfo::Get().caches)
    bytes = std::max(bytes, 2 * static_cast<std::size_t>(cache.size));
  return bytes;
}

std::string dims(int a, int b) { return std::to_string(a) + "x" + std::to_string(b); }

class Cases {
 public:
  // `name` is the op and the shape.
  template <class Op>
  void add(const std::string& name, int rows, Source source, typename Op::Shape shape) {
    cases_.push_back(
        {name + "/rows:" + std::to_string(rows) +
             (source == Source::memory ? "/streamed" : "/cached"),
         [=] { return std::make_unique<Rotation<Op>>(shape, source, streamed_bytes()); }});
  }
  std::vector<Case> take() { return std::move(cases_); }

 private:
  std::vector<Case> cases_;
};

// --- matmul -------------------------------------------------------------------------------------

struct MatrixShape {
  Type type;
  int n_in, n_out;
  Layout layout = Layout::planes;
};

constexpr MatrixShape kHead = {Type::q8_0, kWidth, kVocab, Layout::split_planes};
constexpr std::array kLayerMatrices = {
    MatrixShape{Type::q5_0, kWidth, kHeads* kHeadDim},    // attn_q
    MatrixShape{Type::q5_0, kWidth, kKvHeads* kHeadDim},  // attn_k, half of attn_v
    MatrixShape{Type::q8_0, kWidth, kKvHeads* kHeadDim},  // the other half
    MatrixShape{Type::q4_k, kHeads* kHeadDim, kWidth},    // attn_output
    MatrixShape{Type::q5_0, kWidth, kFeedForward},        // ffn_gate, ffn_up
    MatrixShape{Type::q4_k, kFeedForward, kWidth},        // half of ffn_down
    MatrixShape{Type::q6_k, kFeedForward, kWidth},        // the other half
};
// What other files have, through the generic kernels.
constexpr std::array kOtherTypes = {Type::q4_0, Type::q4_1, Type::q5_1,   Type::q2_k,
                                    Type::q3_k, Type::q5_k, Type::iq4_nl, Type::iq4_xs,
                                    Type::f32,  Type::f16,  Type::bf16};

void add_matmul(Cases& cases, const MatrixShape& m, int rows, Source source) {
  cases.add<test::MatmulOp>(
      "matmul/" + std::string(gguf::name(m.type)) + "_" + dims(m.n_in, m.n_out), rows, source,
      {.type = m.type, .layout = m.layout, .n_out = m.n_out, .n_in = m.n_in, .n_t = rows});
}

void add_matmuls(Cases& cases) {
  for (const int rows : kDecodeRows) add_matmul(cases, kHead, rows, Source::memory);
  for (const MatrixShape& matrix : kLayerMatrices) {
    for (const Source source : {Source::memory, Source::cache})
      for (const int rows : kDecodeRows) add_matmul(cases, matrix, rows, source);
    add_matmul(cases, matrix, kPromptRows, Source::cache);
  }
  for (const Type type : kOtherTypes)
    add_matmul(cases, {type, kFeedForward, kWidth, Layout::rows}, 1, Source::cache);
}

// --- attention and its cache --------------------------------------------------------------------

constexpr op::KvShape kKv = {kKvHeads, kHeadDim, op::KvType::f16};

// One row each of n sequences: a batch of decode steps.
std::vector<op::KvRow> decode_rows(int pos, int n) {
  std::vector<op::KvRow> rows;
  for (int s = 0; s < n; ++s) rows.push_back({pos, pos, s});
  return rows;
}

// depth: positions before the first row; window: 0 for a global layer.
void add_attention(Cases& cases, const std::string& kind, int depth, int window,
                   const std::vector<op::KvRow>& rows, Source source) {
  cases.add<test::AttentionOp>(std::string("attention/") + (window > 0 ? "local_" : "global_") +
                                   kind + "_depth" + std::to_string(depth),
                               static_cast<int>(rows.size()), source,
                               {.kv = kKv, .n_h = kHeads, .window = window, .rows = rows});
}

void add_attentions(Cases& cases) {
  for (const int window : {0, kWindow}) {
    // Between two tokens the weights push keys and values out of the caches.
    for (const Source source : {Source::memory, Source::cache})
      for (const int depth : {512, 4096})
        for (const int n : {1, 16})
          if (source == Source::memory || n == 1)
            add_attention(cases, "decode", depth, window, decode_rows(depth, n), source);
    for (const int depth : {0, 512})
      add_attention(cases, "prompt", depth, window, test::consecutive_rows(depth, kPromptRows),
                    Source::cache);
    // More rows would keep the reference busy for a minute.
    add_attention(cases, "prompt", 4096, window, test::consecutive_rows(4096, 64), Source::cache);
  }
}

// --- the rest -----------------------------------------------------------------------------------

void add_row_ops(Cases& cases, int rows) {
  const Source cache = Source::cache;
  const std::string width = std::to_string(kWidth);
  cases.add<test::RmsNormOp>("rmsnorm/" + width, rows, cache, {.n_t = rows, .n_i = kWidth});
  cases.add<test::RmsNormOp>("rmsnorm/" + dims(kHeads, kHeadDim), rows, cache,
                             {.n_t = rows * kHeads, .n_i = kHeadDim});
  for (const int n : {kWidth, kHeads * kHeadDim, kFeedForward})
    cases.add<test::QuantizeOp>("quantize/" + std::to_string(n), rows, cache,
                                {.n_t = rows, .n_i = n});
  // A scale below 1 would send what is rotated again and again to the slow subnormal numbers.
  for (const int heads : {kHeads, kKvHeads})
    cases.add<test::RopeOp>("rope/" + dims(heads, kHeadDim), rows, cache,
                            {.n_t = rows, .n_h = heads, .d = kHeadDim});
  cases.add<test::KvWriteOp>(
      "kv_write/f16", rows, cache,
      {.kv = kKv, .rows = test::consecutive_rows(0, rows), .n_sequences = 1, .n_positions = rows});
  cases.add<test::ResidualOp>("residual/" + width, rows, cache, {.n_t = rows, .n_i = kWidth});
  cases.add<test::GegluOp>("geglu/" + std::to_string(kFeedForward), rows, cache,
                           {.n_t = rows, .n_i = kFeedForward});
  cases.add<test::EmbeddingOp>("embedding/Q8_0_" + width, rows, cache,
                               {.type = Type::q8_0,
                                .layout = Layout::split_planes,
                                .n_vocab = 4096,
                                .n_i = kWidth,
                                .n_t = rows});
}

// With weights of all bits at random about as many rows survive as of the model's: what a row's bound leaves
// open, compared with the spread of the logits, is alike.
void add_head_screens(Cases& cases) {
  for (const int k : {1, 64})
    for (const int rows : {1, 4, 8})
      cases.add<test::HeadScreenOp>(
          "head_screen/Q8_0_" + dims(kWidth, kVocab) + "_top" + std::to_string(k), rows,
          Source::memory, {.n_out = kVocab, .n_in = kWidth, .n_t = rows, .k = k});
  const std::string matrix = "/Q8_0_" + dims(kWidth, kVocab);
  cases.add<test::ScreenBoundsOp>("screen_bounds" + matrix, 1, Source::memory, {kVocab, kWidth});
  cases.add<test::ScreenProjectionsOp>("screen_projections" + matrix, 1, Source::memory,
                                       {kVocab, kWidth});
}

void add_logit_ops(Cases& cases) {
  const std::string vocab = std::to_string(kVocab);
  for (const int rows : {1, 16})
    cases.add<test::LogSumExpOp>("logsumexp/" + vocab, rows, Source::cache,
                                 {.n_t = rows, .n_vocab = kVocab});
  cases.add<test::SampleWeightsOp>("sample_weights/" + vocab, 1, Source::cache, {.n = kVocab});
}

}  // namespace

std::vector<Case> all_cases() {
  Cases cases;
  add_matmuls(cases);
  add_head_screens(cases);
  add_attentions(cases);
  for (const int rows : {1, 16, kPromptRows}) add_row_ops(cases, rows);
  add_logit_ops(cases);
  return cases.take();
}

}  // namespace engine::bench
