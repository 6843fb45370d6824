#include <array>
#include <limits>

#include "tests/support/kernel_suite.h"
#include "tests/support/ops/sample_weights_op.h"

namespace engine::test {
namespace {

TEST(SampleWeights, Sizes) {
  for (const int n : {0, 1, 7, 8, 9, 512, 10007}) {
    SCOPED_TRACE(n);
    verify(SampleWeightsOp({.n = n}, 1));
  }
}

TEST(SampleWeights, Temperatures) {
  for (const float temperature : {1e-3f, 0.3f, 0.7f, 1.0f, 1.7f, 100.0f}) {
    SCOPED_TRACE(temperature);
    verify(SampleWeightsOp({.n = 1000, .temperature = temperature}, 2));
  }
}

TEST(SampleWeights, InPlaceAtAnyAlignment) {
  for (const std::size_t misalign : {0u, 1u, 3u})
    verify(SampleWeightsOp({.n = 100, .in_place = true, .misalign = misalign}, 3));
}

// The most likely token weighs exactly 2^32, a masked one nothing.
TEST(SampleWeights, KnownValues) {
  const std::array logits = {2.0f, -std::numeric_limits<float>::infinity(), 1.0f};
  for (const auto& pool : all_pools()) {
    std::array<float, 3> weights = {};
    ASSERT_TRUE(pool->run([&] {
                      cpu::sample_weights({logits.data(), weights.data(), 3, 2.0f, 0.5f}, *pool);
                    })
                    .ok());
    EXPECT_EQ(weights[0], 0x1p32f);
    EXPECT_EQ(weights[1], 0.0f);
    EXPECT_NEAR(weights[2], std::exp(-2.0) * 0x1p32, 1e3);
  }
}

}  // namespace
}  // namespace engine::test
