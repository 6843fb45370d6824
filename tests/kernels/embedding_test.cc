#include <array>

#include "tests/support/kernel_suite.h"
#include "tests/support/ops/embedding_op.h"

namespace engine::test {
namespace {

void trace_and_verify(const EmbeddingOp::Shape& shape) {
  SCOPED_TRACE(std::string(gguf::name(shape.type)) + " " + name(shape.layout) + " " +
               std::to_string(shape.n_vocab) + " x " + std::to_string(shape.n_i) + ", " +
               std::to_string(shape.n_t) + " tokens");
  verify(EmbeddingOp(shape, 1));
}

TEST(Embedding, EveryQuantizedType) {
  for (const gguf::Type type : kQuantizedTypes) {
    const int n_i = static_cast<int>(gguf::traits(type).block_elements) * 3;
    trace_and_verify(
        {.type = type, .layout = op::Layout::rows, .n_vocab = 7, .n_i = n_i, .n_t = 5});
    for (const op::Layout layout : {op::Layout::planes, op::Layout::split_planes})
      for (const int n_vocab : {1, 15, 16, 17, 33})
        if (cpu::has_layout(type, layout))
          trace_and_verify(
              {.type = type, .layout = layout, .n_vocab = n_vocab, .n_i = n_i, .n_t = 40});
  }
}

TEST(Embedding, EveryFloatType) {
  for (const gguf::Type type : kFloatTypes)
    for (const int n_i : {1, 33, 640})
      trace_and_verify(
          {.type = type, .layout = op::Layout::rows, .n_vocab = 9, .n_i = n_i, .n_t = 4});
}

TEST(Embedding, NoTokens) {
  trace_and_verify({.type = gguf::Type::q8_0,
                    .layout = op::Layout::planes,
                    .n_vocab = 16,
                    .n_i = 640,
                    .n_t = 0});
}

TEST(Embedding, KnownValues) {
  const std::array<float, 4> table = {1, 2, 3, 4};
  const std::array<std::int32_t, 3> tokens = {1, 0, 1};
  std::array<float, 6> y = {};
  const op::Matrix w = {gguf::Type::f32, op::Layout::rows, 2, 2,
                        reinterpret_cast<const std::byte*>(table.data())};
  ref::embedding({w, tokens.data(), y.data(), 3, 0.5f});
  EXPECT_EQ(y, (std::array{1.5f, 2.0f, 0.5f, 1.0f, 1.5f, 2.0f}));
}

}  // namespace
}  // namespace engine::test
