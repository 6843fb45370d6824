#include <limits>

#include "tests/support/device_suite.h"
#include "tests/support/ops/sample_op.h"

namespace engine::test {
namespace {

constexpr std::uint64_t kMost = ~std::uint64_t{0}, kOne = std::uint64_t{1} << 32;

// The CPU's sampler is engine/sampler.h: the reference is exact.
void verify(SampleOp& op) {
  op.run_reference();
  verify_device(op, op.bits());
}

TEST(SampleDevice, KnownValues) {
  SampleOp op({.n_t = 6, .k = 3}, 1);
  // Weights 4, 2, 1 times 2^30; ids 30, 10, 20.
  for (int t = 0; t < 6; ++t) {
    const float weights[] = {1.0f, 0.5f, 0.25f};
    const std::int32_t ids[] = {30, 10, 20};
    for (std::size_t i = 0; i < 3; ++i) {
      op.values()[static_cast<std::size_t>(t) * 3 + i] = std::log(weights[i]);
      op.ids()[static_cast<std::size_t>(t) * 3 + i] = ids[i];
    }
  }
  const auto draw = [&](std::size_t t, std::uint32_t mantissa, int shift, std::uint64_t least,
                        double share) {
    op.draws()[t] = {1.0f, mantissa, shift, least, static_cast<std::uint64_t>(share * 0x1p64)};
  };
  draw(0, 1, 0, 0, 0.0);         // id 10 comes first
  draw(1, 1, 0, 0, 0.4);         // then 20, up to 3/7
  draw(2, 1, 0, 0, 0.5);         // then 30
  draw(3, 1, 1, 0, 0.0);         // half the mass: 30 alone
  draw(4, 3, 2, 0, 0.3);         // three quarters: 30 and 10, whose share is 1/3
  draw(5, 1, 0, kOne / 3, 0.3);  // the same by min-p
  verify(op);
  const std::int32_t expected[] = {10, 20, 30, 30, 10, 10};
  for (int t = 0; t < 6; ++t) {
    EXPECT_EQ(op.choice(t).token, expected[t]) << t;
    EXPECT_EQ(op.choice(t).non_finite, t % 2 == 1 ? 1u : 0u);
  }
}

TEST(SampleDevice, Sizes) {
  for (const int k : {1, 2, 31, 32, 33, 63, 64})
    for (const int n_t : {0, 1, 40}) {
      SCOPED_TRACE(std::to_string(n_t) + " x " + std::to_string(k));
      SampleOp op({n_t, k}, 2);
      verify(op);
    }
}

TEST(SampleDevice, Limits) {
  for (const std::uint32_t mantissa : {0u, 1u, 1u << 23, (1u << 24) - 1})
    for (const int shift : {0, 23, 24, 62, 63, 150})
      for (const std::uint64_t least : {std::uint64_t{0}, std::uint64_t{1}, kOne, kOne + 1}) {
        if (shift == 0 && mantissa > 1) continue;  // shares are at most 1
        SampleOp op({.n_t = 3, .k = 64}, 3);
        for (std::size_t t = 0; t < 3; ++t) {
          const std::uint64_t bits[] = {0, kMost / 3, kMost};
          op.draws()[t] = {t == 0 ? 1e-4f : 1.0f, mantissa, shift, least, bits[t]};
        }
        verify(op);
      }
}

TEST(SampleDevice, TiesAndNumbersThatAreNone) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const float value : {1.5f, -kInfinity, kInfinity, std::nanf("")})
    for (const std::size_t from : {0u, 1u, 40u}) {
      if (value == kInfinity && from > 0) continue;  // the best come first
      SampleOp op({.n_t = 1, .k = 64}, 4);
      std::fill(op.values().begin() + from, op.values().end(), value);
      if (value == 1.5f) op.draws()[0].top_p_mantissa = 0x800000;
      verify(op);
    }
}

}  // namespace
}  // namespace engine::test
