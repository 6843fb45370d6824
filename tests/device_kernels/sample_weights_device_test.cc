#include <limits>

#include "tests/support/device_suite.h"
#include "tests/support/ops/sample_weights_op.h"

namespace engine::test {
namespace {

TEST(SampleWeightsDevice, Sizes) {
  for (const int n : {0, 1, 2, 31, 33, 64, 300})
    for (const float temperature : {1.0f, 0.7f}) {
      SCOPED_TRACE(n);
      verify_device(SampleWeightsOp({.n = n, .temperature = temperature}, 1));
    }
}

TEST(SampleWeightsDevice, InPlaceAndAnyAlignment) {
  verify_device(SampleWeightsOp({.n = 100, .in_place = true}, 2));
  for (const std::size_t misalign : {1u, 3u})
    verify_device(SampleWeightsOp({.n = 100, .misalign = misalign}, 3));
}

TEST(SampleWeightsDevice, Masked) {
  SampleWeightsOp op({.n = 64, .temperature = 0.3f}, 4);
  op.logits()[5] = op.logits()[63] = -std::numeric_limits<float>::infinity();
  op.logits()[6] = -1e30f;
  verify_device(op);
}

}  // namespace
}  // namespace engine::test
