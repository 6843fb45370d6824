#include <limits>

#include "tests/support/device_suite.h"
#include "tests/support/ops/quantize_op.h"

namespace engine::test {
namespace {

TEST(QuantizeDevice, Widths) {
  for (const int n_i : {32, 64, 96, 256, 640, 1152}) {
    SCOPED_TRACE(n_i);
    verify_device(QuantizeOp({.n_t = 2, .n_i = n_i}, 1));
  }
}

TEST(QuantizeDevice, Rows) {
  for (const int n_t : {0, 1, 9, 130}) verify_device(QuantizeOp({.n_t = n_t, .n_i = 32}, 2));
}

TEST(QuantizeDevice, AnyAlignment) {
  for (const std::size_t misalign : {1u, 3u})
    verify_device(QuantizeOp({.n_t = 2, .n_i = 96, .misalign = misalign}, 3));
}

TEST(QuantizeDevice, SpecialBlocks) {
  const float largest = std::numeric_limits<float>::max(),
              tiny = std::numeric_limits<float>::denorm_min(),
              infinity = std::numeric_limits<float>::infinity(),
              nan = std::numeric_limits<float>::quiet_NaN();
  const float specials[] = {0.0f,  -0.0f,   1e-30f,   0.99e-30f, 1e-38f,   tiny,
                            -tiny, largest, -largest, nan,       infinity, -infinity};
  const int n = static_cast<int>(std::size(specials));
  for (const int at : {0, 5, 31}) {
    QuantizeOp alone({.n_t = n, .n_i = 64}, 4), mixed({.n_t = n, .n_i = 64}, 5);
    std::fill(alone.x().begin(), alone.x().end(), 0.0f);
    for (int t = 0; t < n; ++t)
      alone.x()[count(t, 64) + count(at)] = mixed.x()[count(t, 64) + count(at)] = specials[t];
    verify_device(alone);
    verify_device(mixed);
  }
}

// Ties and the largest quants; products of neighbours beyond 2^31.
TEST(QuantizeDevice, TiesAndLargest) {
  QuantizeOp op({.n_t = 2, .n_i = 64}, 6);
  for (std::size_t i = 0; i < 64; ++i) op.x()[i] = static_cast<float>(i) + 0.5f;
  op.x()[1] = op.x()[33] = 32639;
  for (std::size_t i = 64; i < 128; ++i) op.x()[i] = i % 3 == 0 ? -3.0f : 3.0f;
  verify_device(op);
}

}  // namespace
}  // namespace engine::test
