#include <limits>

#include "tests/support/kernel_suite.h"
#include "tests/support/ops/kv_write_op.h"

namespace engine::test {
namespace {

constexpr op::KvType kTypes[] = {op::KvType::f16, op::KvType::f32};

// Rows of one sequence at these positions.
std::vector<op::KvRow> rows_at(std::initializer_list<int> positions) {
  std::vector<op::KvRow> rows;
  for (const int pos : positions) rows.push_back({pos, pos, 0});
  return rows;
}

TEST(KvWrite, HeadShapes) {
  for (const op::KvType type : kTypes)
    for (const int n_kv : {1, 2, 4})
      for (const int d : {16, 72, 128, 256}) {
        SCOPED_TRACE(std::to_string(n_kv) + " x " + std::to_string(d));
        verify(KvWriteOp({.kv = {n_kv, d, type},
                          .rows = rows_at({3, 4, 5}),
                          .n_sequences = 1,
                          .n_positions = 64},
                         1));
      }
}

TEST(KvWrite, PageBordersAndSequences) {
  for (const op::KvType type : kTypes) {
    verify(KvWriteOp(
        {.kv = {2, 32, type},
         .rows = {{0, 0, 0}, {63, 63, 0}, {64, 64, 0}, {127, 127, 1}, {128, 128, 1}, {64, 64, 1}},
         .n_sequences = 2,
         .n_positions = 192},
        2));
  }
}

TEST(KvWrite, NoRows) {
  verify(KvWriteOp(
      {.kv = {1, 64, op::KvType::f16}, .rows = {}, .n_sequences = 1, .n_positions = 64}, 3));
}

TEST(KvWrite, AnyAlignment) {
  for (const op::KvType type : kTypes)
    verify(KvWriteOp({.kv = {1, 72, type},
                      .rows = rows_at({9, 10}),
                      .n_sequences = 1,
                      .n_positions = 64,
                      .misalign = 3},
                     4));
}

TEST(KvWrite, LandsWhereThePageLayoutSays) {
  for (const op::KvType type : kTypes) {
    KvWriteOp op({.kv = {2, 16, type}, .rows = rows_at({70}), .n_sequences = 1, .n_positions = 128},
                 5);
    op.k()[16 + 3] = 1.5f;  // head 1, dim 3
    op.v()[16 + 3] = -2.5f;
    op.run_reference();
    EXPECT_EQ(op.pages().k(0, 70, 1, 3), 1.5f);
    EXPECT_EQ(op.pages().v(0, 70, 1, 3), -2.5f);
    EXPECT_TRUE(std::isnan(op.pages().k(0, 71, 1, 3)));
  }
}

TEST(KvWrite, ExtremeValues) {
  const float infinity = std::numeric_limits<float>::infinity();
  const float specials[] = {
      65504, 65519.99f, 65520,      -1e9f,     infinity, std::numeric_limits<float>::quiet_NaN(),
      1e-8f, -6e-5f,    0x1.004p0f, 0x1.00cp0f};
  for (const op::KvType type : kTypes) {
    KvWriteOp op({.kv = {1, 16, type}, .rows = rows_at({1}), .n_sequences = 1, .n_positions = 64},
                 6);
    for (std::size_t i = 0; i < std::size(specials); ++i) op.k()[i] = op.v()[15 - i] = specials[i];
    verify(op);
  }
}

}  // namespace
}  // namespace engine::test
