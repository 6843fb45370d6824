#include <array>
#include <limits>

#include "tests/support/kernel_suite.h"
#include "tests/support/ops/geglu_op.h"

namespace engine::test {
namespace {

using Alias = GegluOp::Alias;

TEST(Geglu, Sizes) {
  for (const int n_i : {0, 1, 7, 8, 9, 17, 2048, 6912, 10007}) {
    SCOPED_TRACE(n_i);
    verify(GegluOp({.n_t = 3, .n_i = n_i}, 1));
  }
}

TEST(Geglu, OverEitherInput) {
  for (const Alias alias : {Alias::gate, Alias::up})
    verify(GegluOp({.n_t = 2, .n_i = 333, .alias = alias}, 2));
}

TEST(Geglu, AnyAlignment) {
  for (const std::size_t misalign : {1u, 3u, 7u})
    verify(GegluOp({.n_t = 2, .n_i = 100, .misalign = misalign}, 3));
}

TEST(Geglu, KnownValues) {
  // gelu(1) = 0.5 (1 + tanh(0.7978845608 * 1.044715)) = 0.84119199
  const std::array gate = {0.0f, 1.0f, -1.0f, 100.0f}, up = {5.0f, 1.0f, 2.0f, 3.0f};
  std::array<float, 4> y = {};
  ref::geglu({gate.data(), up.data(), y.data(), 4});
  EXPECT_EQ(y[0], 0.0f);
  EXPECT_NEAR(y[1], 0.84119199, 1e-7);
  EXPECT_NEAR(y[2], -2 * 0.15880801, 1e-7);
  EXPECT_EQ(y[3], 300.0f);
}

// From the cancelling tail over the flat middle to where gelu is the identity and where x^3
// overflows.
TEST(Geglu, WholeRangeOfGates) {
  GegluOp op({.n_t = 1, .n_i = 4001}, 4);
  for (int i = 0; i <= 4000; ++i) op.gate()[count(i)] = -10.0f + static_cast<float>(i) * 0.005f;
  for (const float extreme : {1e-38f, 1e13f, 3e38f}) {
    op.gate()[0] = extreme;
    op.gate()[1] = -extreme;
    verify(op);
  }
}

TEST(Geglu, NonFinite) {
  GegluOp op({.n_t = 1, .n_i = 40}, 5);
  op.gate()[3] = std::numeric_limits<float>::quiet_NaN();
  op.up()[12] = std::numeric_limits<float>::quiet_NaN();
  op.gate()[39] = std::numeric_limits<float>::infinity();
  op.up()[20] = -std::numeric_limits<float>::infinity();
  verify(op);
}

}  // namespace
}  // namespace engine::test
