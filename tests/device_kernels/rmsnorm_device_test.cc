#include <limits>

#include "tests/support/device_suite.h"
#include "tests/support/ops/rmsnorm_op.h"

namespace engine::test {
namespace {

void trace_and_verify(const RmsNormOp::Shape& shape) {
  SCOPED_TRACE(std::to_string(shape.n_t) + " x " + std::to_string(shape.n_i));
  verify_device(RmsNormOp(shape, 1));
}

TEST(RmsNormDevice, Widths) {
  for (const int n_i : {1, 2, 31, 32, 33, 127, 128, 129, 255, 256, 257, 640, 2048})
    trace_and_verify({.n_t = 2, .n_i = n_i});
}

TEST(RmsNormDevice, Rows) {
  for (const int n_t : {0, 1, 4, 9, 130}) trace_and_verify({.n_t = n_t, .n_i = 40});
}

TEST(RmsNormDevice, InPlace) { trace_and_verify({.n_t = 4, .n_i = 257, .in_place = true}); }

TEST(RmsNormDevice, AnyAlignment) {
  for (const std::size_t misalign : {1u, 3u})
    trace_and_verify({.n_t = 2, .n_i = 259, .misalign = misalign});
}

TEST(RmsNormDevice, ZerosAndNonFinite) {
  for (const float value : {0.0f, -0.0f, std::numeric_limits<float>::quiet_NaN(),
                            std::numeric_limits<float>::infinity(), 1e17f, 1e30f, 1e-30f}) {
    SCOPED_TRACE(value);
    RmsNormOp all({.n_t = 2, .n_i = 130}, 2), one({.n_t = 3, .n_i = 130}, 3);
    std::fill(all.x().begin(), all.x().end(), value);
    one.x()[130 + 57] = value;
    verify_device(all);
    verify_device(one);
  }
}

}  // namespace
}  // namespace engine::test
