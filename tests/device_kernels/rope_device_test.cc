#include <limits>

#include "tests/support/device_suite.h"
#include "tests/support/ops/rope_op.h"

namespace engine::test {
namespace {

TEST(RopeDevice, Shapes) {
  for (const int d : {2, 16, 64, 72, 168, 256})
    for (const int n_h : {1, 3, 4}) {
      SCOPED_TRACE(std::to_string(n_h) + " x " + std::to_string(d));
      verify_device(RopeOp({.n_t = 2, .n_h = n_h, .d = d, .scale = 0.0625f}, 1));
    }
}

TEST(RopeDevice, Rows) {
  for (const int n_t : {0, 1, 5, 130}) verify_device(RopeOp({.n_t = n_t, .n_h = 2, .d = 16}, 2));
}

TEST(RopeDevice, AnyAlignment) {
  for (const std::size_t misalign : {1u, 3u})
    verify_device(RopeOp({.n_t = 2, .n_h = 2, .d = 32, .scale = 0.3f, .misalign = misalign}, 3));
}

TEST(RopeDevice, NonFinite) {
  RopeOp op({.n_t = 1, .n_h = 2, .d = 32}, 4);
  op.x()[3] = std::numeric_limits<float>::quiet_NaN();
  op.x()[20] = std::numeric_limits<float>::infinity();
  verify_device(op);
}

}  // namespace
}  // namespace engine::test
