#include <limits>

#include "tests/support/device_suite.h"
#include "tests/support/ops/top_logits_op.h"

namespace engine::test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// There is no CPU backend's op: the reference is exact.
void verify(TopLogitsOp& op) {
  op.run_reference();
  verify_device(op, op.bits());
}
void trace_and_verify(const TopLogitsOp::Shape& shape) {
  SCOPED_TRACE(std::to_string(shape.k) + " of " + std::to_string(shape.n_vocab));
  TopLogitsOp op(shape, 1);
  verify(op);
}

TEST(TopLogitsDevice, KnownValues) {
  TopLogitsOp op({.n_t = 1, .n_vocab = 6, .k = 4}, 1);
  const float logits[] = {1.0f, 5.0f, -0.5f, 5.0f, 7.0f, -9.0f};
  std::copy(std::begin(logits), std::end(logits), op.logits().begin());
  verify(op);
  const std::int32_t expected[] = {4, 1, 3, 0};
  for (int i = 0; i < 4; ++i) EXPECT_EQ(op.id(0, i), expected[i]);
  EXPECT_EQ(op.non_finite(0), 0u);
}

TEST(TopLogitsDevice, Sizes) {
  for (const int n_vocab : {1, 2, 63, 64, 65, 255, 257, 1024, 1025, 3000, 5000})
    for (const int k : {1, 2, 63, 64})
      if (k <= n_vocab) trace_and_verify({.n_t = 1, .n_vocab = n_vocab, .k = k});
}

TEST(TopLogitsDevice, ManySpans) {
  for (const int k : {1, 64}) trace_and_verify({.n_t = 1, .n_vocab = 65 * 1024 + 7, .k = k});
}

// Ids are their own order, so that few spans hold all of the best and many reach the bound.
TEST(TopLogitsDevice, InOrder) {
  for (const float step : {1.0f, -1.0f})
    for (const int k : {1, 5, 64}) {
      TopLogitsOp op({.n_t = 1, .n_vocab = 20'000, .k = k}, 8);
      for (std::size_t i = 0; i < 20'000; ++i) op.logits()[i] = step * static_cast<float>(i);
      verify(op);
    }
}

TEST(TopLogitsDevice, Rows) {
  for (const int n_t : {0, 2, 5}) trace_and_verify({.n_t = n_t, .n_vocab = 1500, .k = 5});
}

TEST(TopLogitsDevice, AnyAlignment) {
  for (const std::size_t misalign : {1u, 3u})
    trace_and_verify({.n_t = 2, .n_vocab = 1100, .k = 7, .misalign = misalign});
}

TEST(TopLogitsDevice, TiesGoToTheLowerId) {
  for (const int k : {1, 64}) {
    TopLogitsOp few({.n_t = 1, .n_vocab = 2500, .k = k}, 2),
        same({.n_t = 1, .n_vocab = 2500, .k = k}, 3);
    for (float& v : few.logits()) v = std::floor(v / 4);
    std::fill(same.logits().begin(), same.logits().end(), -1.5f);
    verify(few);
    verify(same);
    for (int i = 0; i < k; ++i) EXPECT_EQ(same.id(0, i), i);
  }
}

TEST(TopLogitsDevice, ZerosOfBothSignsAreEqual) {
  TopLogitsOp op({.n_t = 1, .n_vocab = 100, .k = 64}, 4);
  for (std::size_t i = 0; i < 100; ++i) op.logits()[i] = i % 3 == 0 ? 0.0f : -0.0f;
  verify(op);
  for (int i = 0; i < 64; ++i) EXPECT_EQ(op.id(0, i), i);
}

TEST(TopLogitsDevice, ReportsWhatIsNotFinite) {
  for (const int n_ids : {3000, 1200})
    for (const float bad : {kNan, -kNan, kInfinity, -kInfinity})
      for (const std::size_t at : {0u, 1500u, 2999u}) {
        TopLogitsOp op({.n_t = 3, .n_vocab = 3000, .k = 4, .n_ids = n_ids}, 5);
        op.logits()[3000 + at] = bad;
        verify(op);
        for (int t = 0; t < 3; ++t) EXPECT_EQ(op.non_finite(t), t == 1 ? 1u : 0u);
      }
}

TEST(TopLogitsDevice, LargestAndSmallestNumbers) {
  TopLogitsOp op({.n_t = 1, .n_vocab = 1030, .k = 64}, 6);
  op.logits()[7] = std::numeric_limits<float>::max();
  op.logits()[1029] = -std::numeric_limits<float>::max();
  op.logits()[8] = std::numeric_limits<float>::denorm_min();
  verify(op);
}

TEST(TopLogitsDevice, IdsWithoutATokenAreNotChosen) {
  for (const int n_ids : {64, 65, 1023, 1024, 1025, 2999}) {
    TopLogitsOp op({.n_t = 2, .n_vocab = 3000, .k = 64, .n_ids = n_ids}, 7);
    for (int i = n_ids; i < 3000; ++i) op.logits()[static_cast<std::size_t>(i)] = 100;
    verify(op);
    for (int i = 0; i < 64; ++i) EXPECT_LT(op.id(0, i), n_ids);
  }
}

// Fewer numbers than places: minus infinities fill the rest.
TEST(TopLogitsDevice, MostlyInfinite) {
  TopLogitsOp op({.n_t = 1, .n_vocab = 3000, .k = 64}, 7);
  for (std::size_t i = 0; i < 3000; ++i)
    if (i % 100 != 99) op.logits()[i] = -kInfinity;
  op.logits()[50] = kNan;
  verify(op);
}

}  // namespace
}  // namespace engine::test
