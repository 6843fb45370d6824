// The directions that hold most of a few vectors.
#include "engine/main_directions.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tests/support/random.h"

namespace engine {
namespace {

constexpr int kWidth = 40;

// Vectors with most of their length along a few axes from `first` on, and a little noise.
std::vector<float> along_axes(test::Random& random, std::size_t first, int n_axes) {
  std::vector<float> x(kWidth);
  for (float& value : x) value = 0.05f * random.normal();
  for (int a = 0; a < n_axes; ++a) x[first + static_cast<std::size_t>(a)] += random.normal();
  return x;
}

double dot(std::span<const float> v, std::size_t i, std::size_t j) {
  double sum = 0;
  for (std::size_t l = 0; l < kWidth; ++l)
    sum += static_cast<double>(v[i * kWidth + l]) * static_cast<double>(v[j * kWidth + l]);
  return sum;
}

TEST(MainDirections, HoldMostOfTheVectors) {
  test::Random random(1);
  MainDirections directions(kWidth);
  for (int i = 0; i < 7; ++i) directions.add(along_axes(random, 3, 2));
  EXPECT_FALSE(directions.update());  // too few
  EXPECT_EQ(directions.share_held(), 0);
  directions.add(along_axes(random, 3, 2));
  EXPECT_TRUE(directions.update());
  EXPECT_GT(directions.share_held(), 0.9);
  for (std::size_t i = 0; i < MainDirections::kDirections; ++i)
    for (std::size_t j = 0; j <= i; ++j)
      EXPECT_NEAR(dot(directions.get(), i, j), i == j ? 1 : 0, 1e-2) << i << ' ' << j;
}

TEST(MainDirections, ChangeOnlyWhereMuchIsGained) {
  test::Random random(2);
  MainDirections directions(kWidth);
  const auto add = [&](std::size_t first, int n) {
    for (int i = 0; i < n; ++i) directions.add(along_axes(random, first, 2));
  };
  add(3, 8);
  EXPECT_TRUE(directions.update());
  const std::vector<float> before(directions.get().begin(), directions.get().end());
  add(3, 24);
  EXPECT_FALSE(directions.update());
  EXPECT_EQ(before, std::vector<float>(directions.get().begin(), directions.get().end()));
  add(20, 31);
  EXPECT_FALSE(directions.update());  // not due yet
  EXPECT_LT(directions.share_held(), 0.5);
  add(20, 1);
  EXPECT_TRUE(directions.update());
  EXPECT_GT(directions.share_held(), 0.9);
}

// Fewer directions than asked for, and vectors that have none.
TEST(MainDirections, OddVectors) {
  MainDirections directions(kWidth);
  std::vector<float> x(kWidth);
  for (int i = 0; i < 100; ++i) directions.add(x);
  EXPECT_FALSE(directions.update());
  x[1] = std::numeric_limits<float>::quiet_NaN();
  directions.add(x);
  x[1] = std::numeric_limits<float>::infinity();
  directions.add(x);
  EXPECT_FALSE(directions.update());
  x[1] = 3e38f;  // its length squared is beyond a float
  for (int i = 0; i < 8; ++i) directions.add(x);
  EXPECT_TRUE(directions.update());
  EXPECT_NEAR(directions.share_held(), 1, 1e-6);
  for (const float value : directions.get()) EXPECT_TRUE(std::isfinite(value));
}

}  // namespace
}  // namespace engine
