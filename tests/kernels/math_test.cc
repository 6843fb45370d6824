// exp, tanh and log against libm in double, sampled densely over every float, and at their special
// values.
#include "kernels/op/math.h"

#include <gtest/gtest.h>

#include <cmath>

namespace engine::op {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kTiny = std::numeric_limits<float>::denorm_min();

std::uint32_t bits(float v) { return std::bit_cast<std::uint32_t>(v); }

// |got - expected| in units of the spacing of floats at `expected`.
double ulp_error(float got, double expected) {
  if (std::bit_cast<std::uint32_t>(static_cast<float>(expected)) == bits(got)) return 0;
  int exponent = 0;
  std::frexp(expected, &exponent);
  return std::abs(got - expected) / std::ldexp(1.0, std::max(exponent - 24, -149));
}

struct Worst {
  double ulp = 0;
  float x = 0;
  void add(double error, float at) {
    if (!(error <= ulp)) ulp = error, x = at;
  }
};

// Every 127th bit pattern, 25 million in all: a prime step visits every exponent
// and leaves no pattern in the low bits.
template <class Function, class Exact>
Worst sample(std::uint32_t first, std::uint32_t last, Function function, Exact exact) {
  Worst worst;
  for (std::uint64_t i = first; i <= last; i += 127) {
    const float x = std::bit_cast<float>(static_cast<std::uint32_t>(i));
    worst.add(ulp_error(function(x), exact(static_cast<double>(x))), x);
  }
  return worst;
}

constexpr std::uint32_t kNegative = 0x80000000u;

#define EXPECT_WITHIN(worst, limit) \
  EXPECT_LT((worst).ulp, limit) << "at x = " << (worst).x << ", bits " << bits((worst).x)

TEST(Math, ExpOverTheWholeRange) {
  const auto function = [](float x) { return exp(x); };
  const auto exact = [](double x) { return std::exp(x); };
  EXPECT_WITHIN(sample(bits(0.0f), bits(88.72283f), function, exact), 1.1);
  EXPECT_WITHIN(sample(bits(-0.0f), bits(-110.0f), function, exact), 1.1);
}

TEST(Math, TanhOverTheWholeRange) {
  const auto function = [](float x) { return tanh(x); };
  const auto exact = [](double x) { return std::tanh(x); };
  EXPECT_WITHIN(sample(bits(0.0f), bits(100.0f), function, exact), 1.35);
  for (float x = 0; x < 12; x += 0.001f) EXPECT_EQ(bits(tanh(-x)), bits(tanh(x)) | kNegative);
}

TEST(Math, LogOverTheWholeRange) {
  const auto function = [](float x) { return log(x); };
  const auto exact = [](double x) { return std::log(x); };
  EXPECT_WITHIN(sample(bits(kTiny), bits(std::numeric_limits<float>::max()), function, exact), 1.0);
}

TEST(Math, ExpSpecialValues) {
  EXPECT_EQ(exp(0.0f), 1.0f);
  EXPECT_EQ(exp(-0.0f), 1.0f);
  EXPECT_EQ(exp(kInfinity), kInfinity);
  EXPECT_EQ(bits(exp(-kInfinity)), 0u);
  EXPECT_EQ(bits(exp(-1e30f)), 0u);
  EXPECT_EQ(exp(88.8f), kInfinity);
  EXPECT_EQ(exp(1e30f), kInfinity);
  EXPECT_EQ(exp(-103.5f), kTiny);
  EXPECT_TRUE(std::isnan(exp(kNan)));
  EXPECT_TRUE(std::isnan(exp(-kNan)));
}

TEST(Math, TanhSpecialValues) {
  EXPECT_EQ(bits(tanh(0.0f)), 0u);
  EXPECT_EQ(bits(tanh(-0.0f)), kNegative);
  EXPECT_EQ(tanh(kTiny), kTiny);
  for (const float x : {9.1f, 20.0f, 89.0f, 1e30f, kInfinity}) {
    EXPECT_EQ(tanh(x), 1.0f) << x;
    EXPECT_EQ(tanh(-x), -1.0f) << x;
  }
  EXPECT_TRUE(std::isnan(tanh(kNan)));
}

TEST(Math, LogSpecialValues) {
  EXPECT_EQ(bits(log(1.0f)), 0u);
  EXPECT_EQ(log(0.0f), -kInfinity);
  EXPECT_EQ(log(-0.0f), -kInfinity);
  EXPECT_EQ(log(kInfinity), kInfinity);
  EXPECT_TRUE(std::isnan(log(-1.0f)));
  EXPECT_TRUE(std::isnan(log(-kTiny)));
  EXPECT_TRUE(std::isnan(log(-kInfinity)));
  EXPECT_TRUE(std::isnan(log(kNan)));
}

}  // namespace
}  // namespace engine::op
