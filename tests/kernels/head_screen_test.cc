// The screened head against matmul() and the plain search for the best logits: the same bits, and bounds that hold,
// also for weights and activations made to break them.
#include "kernels/op/head_screen.h"

#include <cmath>
#include <limits>

#include "kernels/cpu/planes.h"
#include "kernels/op/matmul.h"
#include "tests/support/kernel_suite.h"
#include "tests/support/kernel_weights.h"
#include "tests/support/ops/quantize_op.h"

namespace engine::test {
namespace {

using gguf::BlockQ8_0;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Shape {
  int n_out, n_in, n_t, k;
  int n_ids = 0;  // 0: n_out
};

// A head with its tables.
class Head {
 public:
  explicit Head(const Shape& shape, std::uint64_t seed = 1)
      : shape_(shape),
        random_(seed),
        rows_(make_weights(gguf::Type::q8_0, shape.n_out, shape.n_in)),
        directions_(count(op::kScreenDirections, shape.n_in), 0),
        directions_q_(op::kScreenDirections, shape.n_in),
        x_(count(shape.n_t, shape.n_in), 0),
        xq_(shape.n_t, shape.n_in),
        bounds_(count(n_groups(), cpu::kGroup), 0),
        projections_(count(n_groups(), cpu::kGroup, op::kScreenDirections), 0),
        steps_(count(n_groups()), 0),
        logits_(count(shape.n_t, shape.n_out), 0),
        upper_(logits_.size(), 0),
        ids_(count(shape.n_t, shape.k), 0),
        values_(ids_.size(), 0),
        is_known_(count(shape.n_t), 0),
        scratch_(cpu::head_screen_scratch_bytes(shape.n_in, shape.n_t) + 64, 0) {
    fill_random(rows_, random_);
    random_.fill_normal(x_);
    random_.fill_normal(directions_, 1 / std::sqrt(static_cast<float>(shape.n_in)));
  }

  BlockQ8_0& block(int row, int b) {
    return rows_.blocks<BlockQ8_0>()[count(row, shape_.n_in / op::kBlock) + count(b)];
  }
  Buffer<float>& x() { return x_; }
  Buffer<float>& directions() { return directions_; }
  Random& random() { return random_; }
  const Shape& shape() const { return shape_; }
  int most_evaluated = std::numeric_limits<int>::max();

  int n_ids() const { return shape_.n_ids == 0 ? shape_.n_out : shape_.n_ids; }
  bool is_known(int t) const { return is_known_[count(t)] != 0; }
  int n_evaluated() const { return n_evaluated_; }

  // Packs, and makes the tables and the logits of matmul().
  void prepare(cpu::Pool& pool) {
    planes_ = pack_planes(rows_, op::Layout::split_planes);
    ref::quantize({x_.data(), xq_.rows(0), shape_.n_t, shape_.n_in});
    ref::quantize({directions_.data(), directions_q_.rows(0), op::kScreenDirections, shape_.n_in});
    bounds_.poison(), projections_.poison(), steps_.poison(), logits_.poison();
    const Status status = pool.run([&] {
      cpu::screen_bounds({planes_->matrix(), bounds_.data()}, pool);
      cpu::screen_projections(
          {planes_->matrix(), directions_q_.rows(0), projections_.data(), steps_.data()}, pool);
      cpu::matmul({planes_->matrix(), nullptr, xq_.rows(0), logits_.data(), shape_.n_t}, pool);
    });
    ASSERT_TRUE(status.ok());
    EXPECT_TRUE(bounds_.guards_intact() && projections_.guards_intact() && steps_.guards_intact());
  }

  void run(cpu::Pool& pool, bool with_bounds) {
    ids_.poison(), values_.poison(), upper_.poison(), is_known_.poison();
    const auto scratch = (reinterpret_cast<std::uintptr_t>(scratch_.data()) + 63) / 64 * 64;
    const Status status = pool.run([&] {
      cpu::head_screen(
          {.w = planes_->matrix(),
           .table = {bounds_.data(), projections_.data(), steps_.data(), directions_q_.rows(0)},
           .x = xq_.rows(0),
           .ids = ids_.data(),
           .values = values_.data(),
           .is_known = is_known_.data(),
           .n_evaluated = &n_evaluated_,
           .scratch = reinterpret_cast<std::byte*>(scratch),
           .upper = with_bounds ? upper_.data() : nullptr,
           .n_t = shape_.n_t,
           .n_ids = n_ids(),
           .k = shape_.k,
           .most_evaluated = most_evaluated},
          pool);
    });
    ASSERT_TRUE(status.ok());
    EXPECT_TRUE(ids_.guards_intact() && values_.guards_intact() && upper_.guards_intact() &&
                is_known_.guards_intact() && scratch_.guards_intact());
  }

  // Rows whose bound is below the logit.
  int n_wrong_bounds() const {
    int n = 0;
    for (std::size_t i = 0; i < logits_.size(); ++i) n += upper_[i] < logits_[i] ? 1 : 0;
    return n;
  }

  // Column t's best, found plainly.
  void expect_best(int t) const {
    std::vector<std::uint64_t> ranks;
    for (int id = 0; id < n_ids(); ++id)
      ranks.push_back(op::logit_rank(logits_[count(t, shape_.n_out) + count(id)], id));
    std::sort(ranks.begin(), ranks.end(), std::greater<>());
    for (int i = 0; i < shape_.k; ++i) {
      const std::size_t at = count(t, shape_.k) + count(i);
      const int id = op::id_of_rank(ranks[count(i)]);
      ASSERT_EQ(ids_[at], id) << "place " << i << " of column " << t;
      // Not by bits: the sign of zero is lost.
      ASSERT_EQ(values_[at], logits_[count(t, shape_.n_out) + count(id)]);
    }
  }

  // On all pools: bounds that hold and the best logits, both with and without bounds asked for.
  void verify() {
    for (const auto& pool : all_pools()) {
      SCOPED_TRACE(describe(*pool));
      prepare(*pool);
      for (const bool with_bounds : {true, false}) {
        run(*pool, with_bounds);
        for (int t = 0; t < shape_.n_t; ++t) {
          ASSERT_TRUE(is_known(t));
          expect_best(t);
        }
        if (with_bounds) {
          EXPECT_EQ(n_wrong_bounds(), 0);
        }
        EXPECT_GE(n_evaluated_, shape_.k);
      }
      if (::testing::Test::HasFailure()) return;
    }
  }

 private:
  int n_groups() const { return (shape_.n_out + cpu::kGroup - 1) / cpu::kGroup; }

  Shape shape_;
  Random random_;
  Weights rows_;
  std::optional<Weights> planes_;
  Buffer<float> directions_;
  QuantizedBuffer directions_q_;
  Buffer<float> x_;
  QuantizedBuffer xq_;
  Buffer<std::uint16_t> bounds_;
  Buffer<std::uint8_t> projections_;
  Buffer<float> steps_;
  Buffer<float> logits_, upper_;
  Buffer<std::int32_t> ids_;
  Buffer<float> values_;
  Buffer<std::int32_t> is_known_;
  Buffer<std::byte> scratch_;
  std::int32_t n_evaluated_ = 0;
};

TEST(HeadScreen, Shapes) {
  for (const int n_in : {32, 64, 288, 640, op::kMostScreenInputs})
    for (const int n_out : {1, 16, 17, 333})
      for (const int k : {1, 5, 64}) {
        if (k > n_out) continue;
        SCOPED_TRACE(std::to_string(n_out) + " x " + std::to_string(n_in) + ", k " +
                     std::to_string(k));
        Head({.n_out = n_out, .n_in = n_in, .n_t = 1, .k = k}).verify();
      }
}

TEST(HeadScreen, Columns) {
  for (int n_t = 1; n_t <= op::kMostScreenRows; ++n_t) {
    SCOPED_TRACE(n_t);
    Head({.n_out = 700, .n_in = 640, .n_t = n_t, .k = 7}).verify();
  }
}

// Ids without a token are not chosen.
TEST(HeadScreen, FewerIdsThanRows) {
  Head({.n_out = 300, .n_in = 64, .n_t = 2, .k = 40, .n_ids = 41}).verify();
}

// Most rows are ruled out where the matrix is large and a direction of length 1 holds much of x.
TEST(HeadScreen, RulesRowsOut) {
  Head head({.n_out = 20000, .n_in = 640, .n_t = 1, .k = 1});
  for (std::size_t i = 0; i < head.directions().size(); ++i) {
    float& v = head.directions()[i];
    if (i < 640) head.x()[i] = 25 * v + 0.3f * head.x()[i];
    if (i >= 640) v = 0;
  }
  head.verify();
  EXPECT_LT(head.n_evaluated(), 20000 / 20);
}

// Activations of a kind that hides in none, one or all blocks.
enum class States { normal, one_block, outliers, equal, alternating, tiny, huge, zero };
void fill_states(Head& head, States states) {
  const Shape& shape = head.shape();
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
  // All columns are one, of length 1024, and a power of two away from the direction: both become the same integers.
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
  const Shape& shape = head.shape();
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

constexpr int kStates = 8;

TEST(HeadScreen, AdversarialWeightsAndStates) {
  for (int states = 0; states < kStates; ++states)
    for (int pull = 0; pull < kPulls; ++pull)
      for (int directions = 0; directions < 3; ++directions)
        for (const int n_t : {1, 5}) {
          SCOPED_TRACE("states " + std::to_string(states) + ", weights " + std::to_string(pull) +
                       ", directions " + std::to_string(directions));
          Head head({.n_out = 96, .n_in = 160, .n_t = n_t, .k = 3});
          fill_states(head, static_cast<States>(states));
          fill_directions(head, static_cast<Directions>(directions));
          fill_weights(head, static_cast<Pull>(pull));
          head.verify();
          if (HasFailure()) return;
        }
}

// Nothing but rounding lies between bounds and logits here.
TEST(HeadScreen, RoundingOfLongRows) {
  Head head({.n_out = 200, .n_in = op::kMostScreenInputs, .n_t = 1, .k = 3});
  fill_states(head, States::equal);
  fill_directions(head, Directions::of_state);
  fill_weights(head, Pull::balanced);
  head.verify();
}

// Many columns of all kinds, on the fastest instruction set.
TEST(HeadScreen, TenThousandStates) {
  cpu::Pool pool(2);
  int n_columns = 0, n_wrong = 0;
  for (int seed = 0; n_columns < 10000; ++seed) {
    const int n_t = seed % 2 == 0 ? 1 : 8;
    Head head({.n_out = 512, .n_in = 96, .n_t = n_t, .k = 64}, static_cast<std::uint64_t>(seed));
    fill_states(head, static_cast<States>(seed / 2 % kStates));
    fill_directions(head, static_cast<Directions>(seed % 3));
    fill_weights(head, static_cast<Pull>(seed % kPulls));
    head.prepare(pool);
    head.run(pool, true);
    n_wrong += head.n_wrong_bounds();
    for (int t = 0; t < n_t; ++t) {
      ASSERT_TRUE(head.is_known(t)) << "seed " << seed;
      head.expect_best(t);
      if (HasFailure()) FAIL() << "seed " << seed;
    }
    n_columns += n_t;
  }
  EXPECT_EQ(n_wrong, 0);
}

// Directions are arbitrary: the answer does not depend on them.
TEST(HeadScreen, AnyDirections) {
  for (const float value : {0.0f, 1e-30f, 1.0f, 1e10f}) {
    SCOPED_TRACE(value);
    Head head({.n_out = 400, .n_in = 160, .n_t = 3, .k = 9});
    for (std::size_t i = 0; i < head.directions().size(); ++i) head.directions()[i] *= value;
    head.verify();
  }
  Head same({.n_out = 400, .n_in = 160, .n_t = 3, .k = 9});
  for (std::size_t i = 0; i < same.directions().size(); ++i) same.directions()[i] = 0.25f;
  same.verify();
}

// Rows with scales that are not finite are evaluated wherever they lie, so that the logits' error is found.
TEST(HeadScreen, RowsThatAreNotFinite) {
  for (const int bits : {0x7E00, 0x7C00, 0xFC00})
    for (const int row : {0, 17, 299}) {
      Head head({.n_out = 300, .n_in = 64, .n_t = 2, .k = 4, .n_ids = 290});
      head.block(row, 1).d = static_cast<std::uint16_t>(bits);
      for (const auto& pool : all_pools()) {
        head.prepare(*pool);
        head.run(*pool, false);
        for (int t = 0; t < 2; ++t) EXPECT_FALSE(head.is_known(t)) << describe(*pool);
      }
    }
}

TEST(HeadScreen, StatesThatAreNotFinite) {
  for (const float value : {kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN()}) {
    Head head({.n_out = 300, .n_in = 64, .n_t = 1, .k = 4});
    head.x()[33] = value;
    for (const auto& pool : all_pools()) {
      head.prepare(*pool);
      head.run(*pool, false);
      EXPECT_FALSE(head.is_known(0)) << describe(*pool);
    }
  }
}

// Logits that overflow are not for the screen.
TEST(HeadScreen, StatesThatAreTooLarge) {
  Head head({.n_out = 300, .n_in = 64, .n_t = 1, .k = 4});
  for (std::size_t i = 0; i < head.x().size(); ++i) head.x()[i] = 1e37f;
  for (const auto& pool : all_pools()) {
    head.prepare(*pool);
    head.run(*pool, false);
    EXPECT_FALSE(head.is_known(0)) << describe(*pool);
  }
}

TEST(HeadScreen, GivesUp) {
  Head head({.n_out = 4000, .n_in = 64, .n_t = 2, .k = 64});
  head.most_evaluated = 63;
  for (const auto& pool : all_pools()) {
    head.prepare(*pool);
    head.run(*pool, false);
    for (int t = 0; t < 2; ++t) EXPECT_FALSE(head.is_known(t)) << describe(*pool);
  }
}

// Ties go to the lower id, whichever thread comes first.
TEST(HeadScreen, Ties) {
  Head head({.n_out = 2000, .n_in = 64, .n_t = 1, .k = 64});
  fill_weights(head, Pull::equal_rows);
  head.verify();
}

}  // namespace
}  // namespace engine::test
