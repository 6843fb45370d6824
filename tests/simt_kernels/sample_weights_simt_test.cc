#include <limits>

#include "tests/support/ops/sample_weights_op.h"
#include "tests/support/simt_suite.h"

namespace engine::test {
namespace {

TEST(SampleWeightsSimt, Sizes) {
  for (const int n : {0, 1, 2, 31, 33, 64, 300})
    for (const float temperature : {1.0f, 0.7f}) {
      SCOPED_TRACE(n);
      verify_simt(SampleWeightsOp({.n = n, .temperature = temperature}, 1));
    }
}

TEST(SampleWeightsSimt, InPlaceAndAnyAlignment) {
  verify_simt(SampleWeightsOp({.n = 100, .in_place = true}, 2));
  for (const std::size_t misalign : {1u, 3u})
    verify_simt(SampleWeightsOp({.n = 100, .misalign = misalign}, 3));
}

TEST(SampleWeightsSimt, Masked) {
  SampleWeightsOp op({.n = 64, .temperature = 0.3f}, 4);
  op.logits()[5] = op.logits()[63] = -std::numeric_limits<float>::infinity();
  op.logits()[6] = -1e30f;
  verify_simt(op);
}

}  // namespace
}  // namespace engine::test
