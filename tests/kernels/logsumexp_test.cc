#include <array>
#include <limits>

#include "tests/support/kernel_suite.h"
#include "tests/support/ops/logsumexp_op.h"

namespace engine::test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

void trace_and_verify(const LogSumExpOp::Shape& shape) {
  SCOPED_TRACE(std::to_string(shape.n_t) + " x " + std::to_string(shape.n_vocab));
  verify(LogSumExpOp(shape, 1));
}

TEST(LogSumExp, VocabularySizes) {
  for (const int n : {1, 2, 7, 9, 127, 128, 129, 512, 4095, 4096, 4097, 8192, 8329, 262144})
    trace_and_verify({.n_t = 2, .n_vocab = n});
}

TEST(LogSumExp, Rows) {
  for (const int n_t : {0, 1, 5, 9}) trace_and_verify({.n_t = n_t, .n_vocab = 300});
}

TEST(LogSumExp, AnyAlignment) {
  for (const std::size_t misalign : {1u, 3u})
    trace_and_verify({.n_t = 2, .n_vocab = 4101, .misalign = misalign});
}

TEST(LogSumExp, KnownValues) {
  const std::array logits = {5.0f, 5.0f, 5.0f, 5.0f, -100.0f, 1000.0f, -kInfinity, -100.0f};
  std::array<float, 2> lse = {};
  ref::logsumexp({logits.data(), lse.data(), 2, 4});
  EXPECT_NEAR(lse[0], 5 + std::log(4.0), 1e-6);
  EXPECT_EQ(lse[1], 1000.0f);
}

TEST(LogSumExp, MaskedIdsCountNothing) {
  LogSumExpOp op({.n_t = 1, .n_vocab = 9000}, 2);
  for (std::size_t i = 0; i < 9000; ++i)
    if (i % 3 != 0 || i < 4200) op.logits()[i] = -kInfinity;
  verify(op);
}

TEST(LogSumExp, OneDominantLogit) {
  LogSumExpOp op({.n_t = 1, .n_vocab = 5000}, 3);
  op.logits()[4999] = 30000.0f;
  verify(op);
}

TEST(LogSumExp, NanSpoilsItsRow) {
  for (const std::size_t at : {0u, 150u, 299u}) {
    LogSumExpOp op({.n_t = 3, .n_vocab = 300}, 4);
    op.logits()[300 + at] = std::numeric_limits<float>::quiet_NaN();
    verify(op);
  }
}

}  // namespace
}  // namespace engine::test
