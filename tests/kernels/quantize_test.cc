#include <array>
#include <limits>

#include "tests/support/kernel_suite.h"
#include "tests/support/ops/quantize_op.h"

namespace engine::test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

void trace_and_verify(const QuantizeOp::Shape& shape) {
  SCOPED_TRACE(std::to_string(shape.n_t) + " x " + std::to_string(shape.n_i));
  verify(QuantizeOp(shape, 1));
}

TEST(Quantize, Widths) {
  for (const int n_i : {32, 64, 96, 160, 256, 640, 1024, 1152, 2048})
    trace_and_verify({.n_t = 3, .n_i = n_i});
}

TEST(Quantize, Rows) {
  for (const int n_t : {0, 1, 2, 9, 33}) trace_and_verify({.n_t = n_t, .n_i = 640});
}

TEST(Quantize, AnyAlignment) {
  for (const std::size_t misalign : {1u, 3u})
    trace_and_verify({.n_t = 2, .n_i = 96, .misalign = misalign});
}

// One block through the reference.
struct Block {
  explicit Block(const std::array<float, 32>& x) {
    ref::quantize({x.data(), {q.data(), &scale, sum16.data(), product16.data()}, 1, 32});
  }
  int quant(int i) const { return q[count(op::quad_position(i))]; }

  std::array<std::int16_t, 32> q = {};
  float scale = 0;
  std::array<std::int32_t, 2> sum16 = {}, product16 = {};
};

TEST(Quantize, RoundsToEven) {
  std::array<float, 32> x = {32639.0f, 0.5f, 1.5f, 2.5f, -0.5f, -1.5f, -32639.0f, 0.49f};
  x[17] = 7;
  const Block block(x);
  EXPECT_EQ(block.scale, 1.0f);
  const std::array expected = {32639, 0, 2, 2, 0, -2, -32639, 0};
  for (int i = 0; i < 8; ++i) EXPECT_EQ(block.quant(i), expected[count(i)]) << i;
  EXPECT_EQ(block.sum16, (std::array{2, 7}));
}

TEST(Quantize, QuadOrder) {
  std::array<float, 32> x = {};
  for (std::size_t i = 0; i < 32; ++i) x[i] = static_cast<float>(i);
  x[31] = 32639;
  const Block block(x);
  const std::array<std::int16_t, 8> first_quads = {0, 2, 1, 3, 4, 6, 5, 7};
  EXPECT_TRUE(std::equal(first_quads.begin(), first_quads.end(), block.q.begin()));
}

TEST(Quantize, ProductsOfNeighboursWrap) {
  std::array<float, 32> x = {3, 5, -2, 7};
  x[16] = x[17] = x[18] = x[19] = x[20] = x[21] = 32639;
  const Block block(x);
  EXPECT_EQ(block.product16[0], 3 * 5 - 2 * 7);
  EXPECT_EQ(block.product16[1], static_cast<std::int32_t>(3u * 32639u * 32639u));
}

// Whatever the largest magnitude, both bytes of every quant stay signed bytes.
TEST(Quantize, NeverExceedsTheLargestQuant) {
  Random random(2);
  for (int trial = 0; trial < 20000; ++trial) {
    std::array<float, 32> x = {};
    x[0] = std::ldexp(random.uniform(0.5f, 1), random.below(200) - 95);
    x[1] = -x[0];
    const Block block(x);
    ASSERT_EQ(block.quant(0), 32639) << x[0];
    ASSERT_EQ(block.quant(1), -32639) << x[0];
  }
}

TEST(Quantize, SmallBlocksBecomeZero) {
  EXPECT_EQ(Block({0.99e-30f}).scale, 0.0f);
  EXPECT_EQ(Block({0.99e-30f}).quant(0), 0);
  EXPECT_EQ(Block({1e-30f}).quant(0), 32639);
}

TEST(Quantize, NonFiniteGivesNanScale) {
  for (const float bad : {kNan, kInfinity, -kInfinity}) {
    const Block block({1.0f, bad, 2.0f});
    EXPECT_TRUE(std::isnan(block.scale));
    EXPECT_EQ(block.quant(0), 0);
    EXPECT_EQ(block.sum16, (std::array{0, 0}));
  }
}

TEST(Quantize, SpecialBlocks) {
  const float largest = std::numeric_limits<float>::max(),
              tiny = std::numeric_limits<float>::denorm_min();
  const std::array specials = {0.0f,    -0.0f,    1e-30f, 0.99e-30f, 1e-38f,    tiny,
                               largest, -largest, kNan,   kInfinity, -kInfinity};
  const int n = static_cast<int>(specials.size());
  for (const int at : {0, 5, 31}) {
    QuantizeOp alone({.n_t = n, .n_i = 64}, 3), mixed({.n_t = n, .n_i = 64}, 4);
    std::fill(alone.x().begin(), alone.x().end(), 0.0f);
    for (int t = 0; t < n; ++t)
      alone.x()[count(t, 64) + count(at)] = mixed.x()[count(t, 64) + count(at)] =
          specials[count(t)];
    verify(alone);
    verify(mixed);
  }
}

}  // namespace
}  // namespace engine::test
