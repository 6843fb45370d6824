#include "tests/support/device_suite.h"
#include "tests/support/ops/embedding_op.h"

namespace engine::test {
namespace {

void trace_and_verify(gguf::Type type, int n_i, int n_t) {
  for (const op::Layout layout : {op::Layout::rows, op::Layout::device_planes}) {
    if (layout == op::Layout::device_planes && !cuda::has_planes(type)) continue;
    SCOPED_TRACE(std::string(gguf::name(type)) + " " + name(layout) + ", " + std::to_string(n_t) +
                 " of " + std::to_string(n_i));
    verify_device(
        EmbeddingOp({.type = type, .layout = layout, .n_vocab = 37, .n_i = n_i, .n_t = n_t}, 1));
  }
}

TEST(EmbeddingDevice, EveryType) {
  for (const gguf::Type type : kQuantizedTypes) trace_and_verify(type, 512, 40);
  for (const gguf::Type type : kFloatTypes)
    for (const int n_i : {1, 33, 640}) trace_and_verify(type, n_i, 2);
}

TEST(EmbeddingDevice, Widths) {
  for (const int n_i : {32, 160, 640}) trace_and_verify(gguf::Type::q8_0, n_i, 2);
}

TEST(EmbeddingDevice, Rows) {
  for (const int n_t : {0, 1, 70}) trace_and_verify(gguf::Type::q8_0, 32, n_t);
}

TEST(EmbeddingDevice, FirstAndLastToken) {
  for (const gguf::Type type : {gguf::Type::q6_k, gguf::Type::q3_k, gguf::Type::bf16}) {
    EmbeddingOp op({.type = type, .layout = op::Layout::rows, .n_vocab = 5, .n_i = 256, .n_t = 2},
                   2);
    op.tokens()[0] = 0;
    op.tokens()[1] = 4;
    verify_device(op);
  }
}

}  // namespace
}  // namespace engine::test
