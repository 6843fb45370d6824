// fp16 conversion against its definition: every half, and every boundary between two neighbours.
#include "kernels/op/convert.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace engine::op {
namespace {

constexpr int kInfinity = 0x7C00;
constexpr std::uint16_t kSign = 0x8000;

bool is_nan(std::uint16_t half) { return (half & 0x7FFF) > kInfinity; }

std::uint16_t half(int bits) { return static_cast<std::uint16_t>(bits); }

TEST(Convert, EveryHalfSurvivesTheRoundTrip) {
  for (int bits = 0; bits < 0x10000; ++bits) {
    const std::uint16_t back = f16_from_f32(gguf::f32_from_f16(half(bits)));
    if (is_nan(half(bits)))
      EXPECT_TRUE(is_nan(back)) << bits;
    else
      EXPECT_EQ(back, bits);
  }
}

// The midpoint of two neighbours goes to the even one, and its float neighbours to the nearer one.
// The midpoint above the largest finite half is 65520, as if the exponent went on.
TEST(Convert, MidpointsGoToEven) {
  for (int bits = 0; bits < kInfinity; ++bits) {
    const float below = gguf::f32_from_f16(half(bits));
    const float above = bits + 1 == kInfinity ? 65536.0f : gguf::f32_from_f16(half(bits + 1));
    const float middle = below + (above - below) / 2;  // exact: one bit more than a half has
    const int even = bits % 2 == 0 ? bits : bits + 1;
    EXPECT_EQ(f16_from_f32(middle), even);
    EXPECT_EQ(f16_from_f32(std::nextafterf(middle, 0.0f)), bits);
    EXPECT_EQ(f16_from_f32(std::nextafterf(middle, 1e9f)), bits + 1);
    EXPECT_EQ(f16_from_f32(-middle), even | kSign);
  }
}

TEST(Convert, SpecialValues) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(f16_from_f32(infinity), kInfinity);
  EXPECT_EQ(f16_from_f32(-infinity), kInfinity | kSign);
  EXPECT_EQ(f16_from_f32(std::numeric_limits<float>::max()), kInfinity);
  EXPECT_EQ(f16_from_f32(-0.0f), kSign);
  EXPECT_EQ(f16_from_f32(std::numeric_limits<float>::denorm_min()), 0);
  EXPECT_TRUE(is_nan(f16_from_f32(std::numeric_limits<float>::quiet_NaN())));
  // A NaN whose payload lies in the bits that fp16 drops must not become infinity.
  EXPECT_TRUE(is_nan(f16_from_f32(std::bit_cast<float>(0x7F800001u))));
  EXPECT_TRUE(is_nan(f16_from_f32(std::bit_cast<float>(0xFF800001u))));
}

}  // namespace
}  // namespace engine::op
