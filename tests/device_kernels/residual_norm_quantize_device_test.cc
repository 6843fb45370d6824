#include <limits>

#include "tests/support/device_suite.h"
#include "tests/support/ops/residual_norm_quantize_op.h"

namespace engine::test {
namespace {

TEST(ResidualNormQuantizeDevice, Widths) {
  for (const int n_i : {32, 64, 96, 128, 160, 256, 640, 1152}) {
    SCOPED_TRACE(n_i);
    verify_device(ResidualNormQuantizeOp({.n_t = 2, .n_i = n_i}, 1));
  }
}

TEST(ResidualNormQuantizeDevice, Rows) {
  for (const int n_t : {0, 1, 4, 65})
    verify_device(ResidualNormQuantizeOp({.n_t = n_t, .n_i = 64}, 2));
}

TEST(ResidualNormQuantizeDevice, AnyAlignment) {
  for (const std::size_t misalign : {1u, 3u})
    verify_device(ResidualNormQuantizeOp({.n_t = 2, .n_i = 96, .misalign = misalign}, 3));
}

TEST(ResidualNormQuantizeDevice, ZerosAndNonFinite) {
  for (const float value : {0.0f, std::numeric_limits<float>::quiet_NaN(),
                            std::numeric_limits<float>::infinity(), 1e30f}) {
    SCOPED_TRACE(value);
    ResidualNormQuantizeOp x({.n_t = 3, .n_i = 160}, 4), y({.n_t = 3, .n_i = 160}, 5);
    x.x()[160 + 57] = value;
    y.y()[160 + 57] = value;
    verify_device(x);
    verify_device(y);
  }
}

}  // namespace
}  // namespace engine::test
