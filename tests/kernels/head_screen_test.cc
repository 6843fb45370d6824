// The screened head against matmul() and the plain search for the best logits: the same bits, and bounds that hold,
// also for weights and activations made to break them.
#include "kernels/op/head_screen.h"

#include <cmath>
#include <limits>

#include "tests/support/kernel_suite.h"
#include "tests/support/ops/head_screen_op.h"
#include "tests/support/ops/screen_tables_op.h"

namespace engine::test {
namespace {

using Head = HeadScreenOp;
using gguf::BlockQ8_0;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// On all instruction sets and numbers of threads: the same tables, bounds that hold, and the best logits.
void verify_screen(Head&& head) {
  Bits tables, results;
  for (const auto& pool : all_pools()) {
    SCOPED_TRACE(describe(*pool));
    if (pool->n_threads() == 1) head.prepare(pool->isa());
    if (tables.empty()) tables = head.table_bits();
    EXPECT_EQ(compare_bits(tables, head.table_bits()), "");
    run(head, *pool, head.n_t());
    EXPECT_EQ(head.mismatch(), "");
    EXPECT_EQ(head.wrong_bound(), "");
    EXPECT_TRUE(head.guards_intact());
    EXPECT_GE(head.n_evaluated(), head.shape().k);
    for (int t = 0; t < head.n_t(); ++t) EXPECT_TRUE(head.is_known(t));
    if (results.empty()) results = head.bits();
    EXPECT_EQ(compare_bits(results, head.bits()), "");
    if (::testing::Test::HasFailure()) return;
  }
}

// Not one column of the head on any pool is for the screen to answer.
void expect_unknown(Head&& head) {
  for (const auto& pool : all_pools()) {
    SCOPED_TRACE(describe(*pool));
    if (pool->n_threads() == 1) head.prepare(pool->isa());
    run(head, *pool, head.n_t());
    for (int t = 0; t < head.n_t(); ++t) EXPECT_FALSE(head.is_known(t));
  }
}

TEST(HeadScreen, Tables) {
  for (const int n_in : {32, 160, 640})
    for (const int n_out : {1, 16, 17, 100}) {
      verify(ScreenBoundsOp({n_out, n_in}, 1));
      verify(ScreenProjectionsOp({n_out, n_in}, 1));
    }
}

TEST(HeadScreen, Shapes) {
  for (const int n_in : {32, 64, 288, 640, op::kMostScreenInputs})
    for (const int n_out : {1, 16, 17, 333})
      for (const int k : {1, 5, 64}) {
        if (k > n_out) continue;
        SCOPED_TRACE(std::to_string(n_out) + " x " + std::to_string(n_in) + ", k " +
                     std::to_string(k));
        Head head({.n_out = n_out, .n_in = n_in, .n_t = 1, .k = k}, 1);
        verify_screen(std::move(head));
      }
}

TEST(HeadScreen, Columns) {
  for (int n_t = 1; n_t <= op::kMostScreenRows; ++n_t) {
    SCOPED_TRACE(n_t);
    Head head({.n_out = 700, .n_in = 640, .n_t = n_t, .k = 7}, 1);
    head.ask_for_bounds();
    verify_screen(std::move(head));
  }
}

// Ids without a token are not chosen.
TEST(HeadScreen, FewerIdsThanRows) {
  verify_screen(Head({.n_out = 300, .n_in = 64, .n_t = 2, .k = 40, .n_ids = 41}, 1));
}

// The bounds are those of the formula, with little added for rounding.
TEST(HeadScreen, BoundsAreThoseOfTheReference) {
  Head head({.n_out = 100, .n_in = 640, .n_t = 1, .k = 1}, 1);
  head.ask_for_bounds();
  head.run_reference();
  for (const auto& pool : all_pools()) {
    run(head, *pool, 1);
    for (std::size_t row = 0; row < 100; ++row) {
      const float margin = head.reference_bounds()[row] - head.logits()[row];
      EXPECT_GT(margin, 0);
      EXPECT_NEAR(head.bounds()[row], head.reference_bounds()[row], 0.01f * margin)
          << describe(*pool) << " row " << row;
    }
  }
}

// Most rows are ruled out where the matrix is large and a direction of length 1 holds much of x.
TEST(HeadScreen, RulesRowsOut) {
  Head head({.n_out = 20000, .n_in = 640, .n_t = 1, .k = 1}, 1);
  for (std::size_t i = 0; i < head.directions().size(); ++i) {
    float& v = head.directions()[i];
    if (i < 640) head.x()[i] = 25 * v + 0.3f * head.x()[i];
    if (i >= 640) v = 0;
  }
  for (const auto& pool : all_pools()) {
    if (pool->n_threads() == 1) head.prepare(pool->isa());
    run(head, *pool, 1);
    EXPECT_EQ(head.mismatch(), "");
    EXPECT_LT(head.n_evaluated(), 20000 / 20) << describe(*pool);
  }
}

// Activations of a kind that hides in none, one or all blocks.
enum class States { normal, one_block, outliers, equal, alternating, on_grid, tiny, huge, zero };
void fill_states(Head& head, States states) {
  const Head::Shape& shape = head.shape();
  Random& random = head.random();
  for (std::size_t i = 0; i < head.x().size(); ++i) {
    float& x = head.x()[i];
    const std::size_t in_row = i % count(shape.n_in);
    const float normal = random.normal();
    switch (states) {
      case States::normal:
        x = normal;
        break;
      case States::one_block:
        x = in_row / 32 == count(shape.n_in) / 64 ? normal : 0;
        break;
      case States::outliers:
        x = random.uniform(0, 1) < 0.02f ? 300 * normal : normal;
        break;
      case States::equal:
        x = 1;
        break;
      case States::alternating:
        x = in_row % 2 == 0 ? 7.25f : -7.25f;
        break;
      case States::on_grid:  // which directions of 8 bits hold exactly
        x = in_row % 32 == 0 ? 127 : std::rint(random.uniform(-127, 127));
        break;
      case States::tiny:
        x = 1e-33f * normal * std::exp2(static_cast<float>(in_row % 16));
        break;
      case States::huge:
        x = 1e20f * normal;
        break;
      case States::zero:
        x = 0;
        break;
    }
  }
}

// Directions that leave nothing, something or all of the state to the bound on the rest.
enum class Directions { of_state, random, none };
void fill_directions(Head& head, Directions directions) {
  const std::size_t n_in = count(head.shape().n_in);
  if (directions == Directions::random) return;
  std::fill(head.directions().begin(), head.directions().end(), 0.0f);
  if (directions == Directions::none) return;
  // All columns are one, of length 1024; the direction is the same with length 1.
  double squares = 0;
  for (std::size_t i = 0; i < n_in; ++i)
    squares += static_cast<double>(head.x()[i]) * static_cast<double>(head.x()[i]);
  if (squares == 0) return;
  for (std::size_t i = 0; i < n_in; ++i) {
    const auto x = static_cast<float>(head.x()[i] * (1024 / std::sqrt(squares)));
    for (std::size_t t = 0; t < count(head.shape().n_t); ++t) head.x()[t * n_in + i] = x;
    head.directions()[i] = x / 1024;
  }
}

// Weights whose nibbles pull a bound as far as it goes.
enum class Pull {
  random,
  low_with_x,  // Cauchy-Schwarz with equality, where the state is of equal sizes
  low_against_x,
  high_with_error,  // the same for the error of 8-bit activations
  balanced,         // nothing to project where the state is equal, and large sums to round
  extremes,
  equal_rows,
  tiny_scales,
  large_scales,
};
constexpr int kPulls = 9;

// Element i of column 0, minus what 8 bits make of it.
float rounding_error(Head& head, std::size_t i) {
  const float* const block = head.x().data() + i / 32 * 32;
  float amax = 0;
  for (int j = 0; j < 32; ++j) amax = std::max(amax, std::abs(block[j]));
  const float step = amax / 127, x = head.x()[i];
  return amax > 0 ? x - step * std::rint(x / step) : 0;
}

void fill_weights(Head& head, Pull pull) {
  const Head::Shape& shape = head.shape();
  Random& random = head.random();
  for (int row = 0; row < shape.n_out; ++row)
    for (int b = 0; b < shape.n_in / op::kBlock; ++b) {
      BlockQ8_0& block = head.block(row, b);
      for (int i = 0; i < op::kBlock; ++i) {
        const std::size_t at = count(b, op::kBlock) + count(i);
        const bool x_is_positive = head.x()[at] > 0;
        const auto bits = static_cast<int>(random.bits() >> 56);
        int u = bits;  // quant + 128
        switch (pull) {
          case Pull::random:
          case Pull::tiny_scales:
          case Pull::large_scales:
            break;
          case Pull::low_with_x:
            u = (bits & 0xF0) | (x_is_positive ? 15 : 0);
            break;
          case Pull::low_against_x:
            u = (bits & 0xF0) | (x_is_positive ? 0 : 15);
            break;
          case Pull::high_with_error:
            u = (rounding_error(head, at) > 0 ? 0xF0 : 0) | (7 + bits % 2);
            break;
          case Pull::balanced:
            u = 0xF0 | (7 + i % 2);
            break;
          case Pull::extremes:
            u = bits % 2 == 0 ? 0 : 255;
            break;
          case Pull::equal_rows:
            u = 128 + (i * 37 + b * 11) % 128;
            break;
        }
        block.qs[i] = static_cast<std::int8_t>(u - 128);
      }
      const float scale = pull == Pull::tiny_scales    ? 6e-8f
                          : pull == Pull::large_scales ? 65504.0f
                                                       : random.uniform(0.001f, 0.01f);
      block.d = op::f16_from_f32(pull == Pull::equal_rows ? 0.01f : scale);
    }
}

constexpr int kStates = 9;

TEST(HeadScreen, AdversarialWeightsAndStates) {
  for (int states = 0; states < kStates; ++states)
    for (int pull = 0; pull < kPulls; ++pull)
      for (int directions = 0; directions < 3; ++directions)
        for (const int n_t : {1, 5}) {
          SCOPED_TRACE("states " + std::to_string(states) + ", weights " + std::to_string(pull) +
                       ", directions " + std::to_string(directions));
          Head head({.n_out = 96, .n_in = 160, .n_t = n_t, .k = 3}, 1);
          fill_states(head, static_cast<States>(states));
          fill_directions(head, static_cast<Directions>(directions));
          fill_weights(head, static_cast<Pull>(pull));
          head.ask_for_bounds();
          verify_screen(std::move(head));
          if (HasFailure()) return;
        }
}

// Nothing but rounding lies between bounds and logits here.
TEST(HeadScreen, RoundingOfLongRows) {
  Head head({.n_out = 200, .n_in = op::kMostScreenInputs, .n_t = 1, .k = 3}, 1);
  fill_states(head, States::equal);
  fill_directions(head, Directions::of_state);
  fill_weights(head, Pull::balanced);
  head.ask_for_bounds();
  verify_screen(std::move(head));
}

// Many columns of all kinds, on the fastest instruction set.
TEST(HeadScreen, TenThousandStates) {
  cpu::Pool pool(2);
  int n_columns = 0;
  for (int seed = 0; n_columns < 10000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const int n_t = seed % 4 == 0 ? 1 : 8;
    Head head({.n_out = 512, .n_in = 96, .n_t = n_t, .k = 64}, static_cast<std::uint64_t>(seed));
    fill_states(head, static_cast<States>(seed / 4 % kStates));
    fill_directions(head, static_cast<Directions>(seed % 3));
    fill_weights(head, static_cast<Pull>(seed % kPulls));
    head.ask_for_bounds();
    head.prepare(pool.isa());
    run(head, pool, n_t);
    EXPECT_EQ(head.wrong_bound(), "");
    EXPECT_EQ(head.mismatch(), "");
    for (int t = 0; t < n_t; ++t) EXPECT_TRUE(head.is_known(t));
    if (HasFailure()) return;
    n_columns += n_t;
  }
}

// Directions are arbitrary: the answer does not depend on them.
TEST(HeadScreen, AnyDirections) {
  for (const float value : {0.0f, 1e-30f, 0.3f}) {
    SCOPED_TRACE(value);
    Head head({.n_out = 400, .n_in = 160, .n_t = 3, .k = 9}, 1);
    for (float& v : head.directions()) v *= value;
    verify_screen(std::move(head));
  }
  Head same({.n_out = 400, .n_in = 160, .n_t = 3, .k = 9}, 1);
  std::fill(same.directions().begin(), same.directions().end(), 0.07f);
  verify_screen(std::move(same));
}

// Rows with scales that are not finite are evaluated wherever they lie, so that the logits' error is found.
TEST(HeadScreen, RowsThatAreNotFinite) {
  for (const int bits : {0x7E00, 0x7C00, 0xFC00})
    for (const int row : {0, 17, 299}) {
      Head head({.n_out = 300, .n_in = 64, .n_t = 2, .k = 4, .n_ids = 290}, 1);
      head.block(row, 1).d = static_cast<std::uint16_t>(bits);
      expect_unknown(std::move(head));
    }
}

TEST(HeadScreen, StatesThatAreNotFinite) {
  for (const float value : {kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN()}) {
    Head head({.n_out = 300, .n_in = 64, .n_t = 1, .k = 4}, 1);
    head.x()[33] = value;
    expect_unknown(std::move(head));
  }
}

// Logits that might overflow are not for the screen.
TEST(HeadScreen, StatesThatAreTooLarge) {
  Head head({.n_out = 300, .n_in = 64, .n_t = 1, .k = 4}, 1);
  std::fill(head.x().begin(), head.x().end(), 1e37f);
  expect_unknown(std::move(head));
}

TEST(HeadScreen, GivesUp) {
  Head head({.n_out = 4000, .n_in = 64, .n_t = 2, .k = 64}, 1);
  head.set_most_evaluated(63);
  expect_unknown(std::move(head));
}

// Ties go to the lower id, whichever thread comes first.
TEST(HeadScreen, Ties) {
  Head head({.n_out = 2000, .n_in = 64, .n_t = 1, .k = 64}, 1);
  fill_weights(head, Pull::equal_rows);
  verify_screen(std::move(head));
}

}  // namespace
}  // namespace engine::test
