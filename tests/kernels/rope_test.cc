#include <array>
#include <limits>

#include "tests/support/kernel_suite.h"
#include "tests/support/ops/rope_op.h"

namespace engine::test {
namespace {

void trace_and_verify(const RopeOp::Shape& shape) {
  SCOPED_TRACE(std::to_string(shape.n_t) + " x " + std::to_string(shape.n_h) + " x " +
               std::to_string(shape.d));
  verify(RopeOp(shape, 1));
}

TEST(Rope, HeadSizes) {
  for (const int d : {2, 6, 16, 32, 64, 72, 128, 168, 256})
    trace_and_verify({.n_t = 3, .n_h = 2, .d = d});
}

TEST(Rope, RowsAndHeads) {
  for (const int n_t : {0, 1, 2, 9})
    for (const int n_h : {1, 4, 8})
      trace_and_verify({.n_t = n_t, .n_h = n_h, .d = 256, .scale = 0.0625f});
}

TEST(Rope, ScaleThatRounds) {
  trace_and_verify({.n_t = 2, .n_h = 4, .d = 72, .scale = 0.11785113f});  // 1/sqrt(72)
}

TEST(Rope, AnyAlignment) {
  for (const std::size_t misalign : {1u, 3u})
    trace_and_verify({.n_t = 2, .n_h = 1, .d = 128, .misalign = misalign});
}

TEST(Rope, QuarterTurn) {
  const std::array cos = {0.0f, 1.0f}, sin = {1.0f, 0.0f};
  std::array x = {1.0f, 2.0f, 3.0f, 4.0f};  // pairs (1, 3) and (2, 4)
  ref::rope({x.data(), cos.data(), sin.data(), 1, 1, 4, 2.0f});
  EXPECT_EQ(x, (std::array{-6.0f, 4.0f, 2.0f, 8.0f}));
}

TEST(Rope, NonFiniteStaysInItsPair) {
  RopeOp op({.n_t = 1, .n_h = 2, .d = 64}, 2);
  op.x()[5] = std::numeric_limits<float>::quiet_NaN();
  op.x()[64 + 40] = std::numeric_limits<float>::infinity();
  verify(op);
}

}  // namespace
}  // namespace engine::test
