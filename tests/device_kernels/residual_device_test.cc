#include <limits>

#include "tests/support/device_suite.h"
#include "tests/support/ops/residual_op.h"

namespace engine::test {
namespace {

TEST(ResidualDevice, Sizes) {
  for (const int n_i : {1, 2, 31, 33, 255, 256, 257, 640}) {
    SCOPED_TRACE(n_i);
    verify_device(ResidualOp({.n_t = 3, .n_i = n_i}, 1));
  }
}

TEST(ResidualDevice, Rows) {
  for (const int n_t : {0, 1, 2, 130}) verify_device(ResidualOp({.n_t = n_t, .n_i = 16}, 2));
}

TEST(ResidualDevice, AnyAlignment) {
  for (const std::size_t misalign : {1u, 3u})
    verify_device(ResidualOp({.n_t = 2, .n_i = 259, .misalign = misalign}, 3));
}

TEST(ResidualDevice, NonFinite) {
  ResidualOp op({.n_t = 2, .n_i = 64}, 4);
  op.x()[7] = std::numeric_limits<float>::quiet_NaN();
  op.x()[8] = std::numeric_limits<float>::infinity();
  op.x()[9] = std::numeric_limits<float>::max();
  verify_device(op);
}

}  // namespace
}  // namespace engine::test
