#include <array>
#include <limits>

#include "tests/support/kernel_suite.h"
#include "tests/support/ops/rmsnorm_op.h"

namespace engine::test {
namespace {

void trace_and_verify(const RmsNormOp::Shape& shape) {
  SCOPED_TRACE(std::to_string(shape.n_t) + " x " + std::to_string(shape.n_i));
  verify(RmsNormOp(shape, 1));
}

TEST(RmsNorm, Widths) {
  for (const int n_i :
       {1, 2, 7, 8, 9, 31, 33, 64, 72, 127, 128, 129, 255, 256, 257, 640, 1152, 2048})
    trace_and_verify({.n_t = 3, .n_i = n_i});
}

TEST(RmsNorm, Rows) {
  for (const int n_t : {0, 1, 2, 4, 9, 67}) trace_and_verify({.n_t = n_t, .n_i = 640});
}

TEST(RmsNorm, InPlace) { trace_and_verify({.n_t = 4, .n_i = 257, .in_place = true}); }

TEST(RmsNorm, AnyAlignment) {
  for (const std::size_t misalign : {1u, 3u, 5u})
    trace_and_verify({.n_t = 2, .n_i = 259, .misalign = misalign});
}

TEST(RmsNorm, KnownValues) {
  const std::array x = {3.0f, 4.0f, 0.0f, 0.0f}, w = {1.0f, 2.0f, 3.0f, 4.0f};
  std::array<float, 4> y = {};
  ref::rmsnorm({x.data(), w.data(), y.data(), 1, 4, 0.0f});  // root mean square 2.5
  EXPECT_EQ(y, (std::array{1.2f, 3.2f, 0.0f, 0.0f}));
}

TEST(RmsNorm, ZerosStayZeros) {
  RmsNormOp op({.n_t = 1, .n_i = 640}, 2);
  std::fill(op.x().begin(), op.x().end(), 0.0f);
  verify(op);
}

TEST(RmsNorm, LargeResidualsDoNotOverflow) {
  RmsNormOp op({.n_t = 2, .n_i = 640}, 3);
  for (float& v : op.x()) v *= 1e17f;
  verify(op);
}

// A value that is not finite spoils its row, no other.
TEST(RmsNorm, NonFiniteSpreadsOverItsRow) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    RmsNormOp op({.n_t = 3, .n_i = 130}, 4);
    op.x()[130 + 57] = bad;
    verify(op);
  }
}

}  // namespace
}  // namespace engine::test
