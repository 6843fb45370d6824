#include <limits>

#include "tests/support/kernel_suite.h"
#include "tests/support/ops/attention_op.h"

namespace engine::test {
namespace {

constexpr op::KvType kTypes[] = {op::KvType::f16, op::KvType::f32};
constexpr int kAllKeys = 0;  // window of a global layer

std::string label(const AttentionOp::Shape& shape) {
  const op::KvRow& last = shape.rows.back();
  return std::to_string(shape.n_h) + " heads on " + std::to_string(shape.kv.n_kv) + " of " +
         std::to_string(shape.kv.d) + (shape.kv.type == op::KvType::f16 ? " f16" : " f32") +
         ", window " + std::to_string(shape.window) + ", pos " + std::to_string(last.pos) +
         " until " + std::to_string(last.attend_until);
}

void trace_and_verify(const AttentionOp::Shape& shape) {
  SCOPED_TRACE(label(shape));
  verify(AttentionOp(shape, 1));
}

// Query heads on KV heads, with one, two, three, four and eight to share each.
constexpr std::pair<int, int> kHeads[] = {{1, 1}, {3, 3}, {4, 2}, {3, 1}, {4, 1}, {8, 1}, {8, 4}};

// Five rows around a page border, so that queries which see different slots of a tile, or none, are
// computed together.
TEST(Attention, HeadShapes) {
  for (const op::KvType type : kTypes)
    for (const int d : {16, 32, 64, 72, 80, 96, 128, 168, 256})
      for (const auto& [n_h, n_kv] : kHeads)
        trace_and_verify({.kv = {n_kv, d, type},
                          .n_h = n_h,
                          .window = kAllKeys,
                          .rows = consecutive_rows(62, 5)});
}

TEST(Attention, PositionsAtPageBorders) {
  for (const op::KvType type : kTypes)
    for (const int pos : {0, 1, 62, 63, 64, 65, 127, 128, 191, 192, 1000})
      trace_and_verify(
          {.kv = {1, 64, type}, .n_h = 2, .window = kAllKeys, .rows = consecutive_rows(pos, 1)});
}

TEST(Attention, Windows) {
  for (const int window : {1, 2, 63, 64, 65, 511, 512, 513})
    for (const int pos : {0, 63, 64, 511, 512, 513, 600, 700})
      trace_and_verify({.kv = {1, 32, op::KvType::f16},
                        .n_h = 2,
                        .window = window,
                        .rows = consecutive_rows(pos, 1)});
}

TEST(Attention, Chunks) {
  for (const int n_t : {2, 9, 70})
    trace_and_verify({.kv = {1, 64, op::KvType::f16},
                      .n_h = 4,
                      .window = 64,
                      .rows = consecutive_rows(60, n_t)});
}

TEST(Attention, HeadsOverWindowBorders) {
  for (const auto& [n_h, n_kv] : kHeads)
    for (const int window : {1, 2, 64, 65})
      trace_and_verify({.kv = {n_kv, 40, op::KvType::f16},
                        .n_h = n_h,
                        .window = window,
                        .rows = consecutive_rows(125, 7)});
}

TEST(Attention, Sequences) {
  for (const auto& [n_h, n_kv] : kHeads)
    trace_and_verify({.kv = {n_kv, 32, op::KvType::f16},
                      .n_h = n_h,
                      .window = 100,
                      .rows = {{200, 200, 0},
                               {5, 5, 1},
                               {6, 6, 1},
                               {64, 64, 2},
                               {201, 201, 0},
                               {0, 0, 3},
                               {190, 190, 1}}});
}

// Between what two rows of a sequence see lie pages that neither does.
TEST(Attention, RowsFarApart) {
  for (const auto& [n_h, n_kv] : kHeads)
    trace_and_verify({.kv = {n_kv, 32, op::KvType::f16},
                      .n_h = n_h,
                      .window = 10,
                      .rows = {{5, 5, 0}, {500, 500, 0}, {63, 63, 0}, {300, 310, 0}}});
}

// An image span: every row sees up to the span's end.
TEST(Attention, UntilBeyondThePosition) {
  for (const auto& [n_h, n_kv] : kHeads)
    for (const int window : {kAllKeys, 2, 64})
      trace_and_verify({.kv = {n_kv, 64, op::KvType::f16},
                        .n_h = n_h,
                        .window = window,
                        .rows = {{60, 130, 0}, {100, 130, 0}, {130, 130, 0}}});
}

TEST(Attention, AnyAlignment) {
  for (const std::size_t misalign : {1u, 3u})
    trace_and_verify({.kv = {1, 72, op::KvType::f16},
                      .n_h = 3,
                      .window = kAllKeys,
                      .rows = consecutive_rows(90, 2),
                      .misalign = misalign});
}

TEST(Attention, NoRows) {
  AttentionOp op({.kv = {1, 64, op::KvType::f16}, .n_h = 1, .window = kAllKeys, .rows = {}}, 2);
  verify(op);
}

// With equal scores and V the indicator of one key, the output tells whether that key was seen.
TEST(Attention, WindowCountsTheCurrentPosition) {
  struct Case {
    int pos, first_seen, last_seen;
  };
  for (const auto& [pos, first, last] :
       {Case{511, 0, 511}, Case{512, 1, 512}, Case{700, 189, 700}}) {
    AttentionOp op(
        {.kv = {1, 16, op::KvType::f16}, .n_h = 1, .window = 512, .rows = consecutive_rows(pos, 1)},
        3);
    std::fill(op.q().begin(), op.q().end(), 0.0f);
    for (int key = first; key <= last; ++key)
      for (int i = 0; i < 16; ++i)
        op.pages().set_v(0, key, 0, i, key == first + i || key == last - i ? 512.0f : 0.0f);
    verify(op);
    for (int i = 0; i < 16; ++i) EXPECT_EQ(op.out(0, 0, i), 2.0f) << pos << " dim " << i;
  }
}

TEST(Attention, SingleKeyIsCopied) {
  AttentionOp op(
      {.kv = {1, 64, op::KvType::f32}, .n_h = 1, .window = 1, .rows = consecutive_rows(77, 1)}, 4);
  verify(op);
  for (int i = 0; i < 64; ++i) EXPECT_EQ(op.out(0, 0, i), op.pages().v(0, 77, 0, i));
}

// Scores so far apart that one key takes all, in the first, a middle or the last tile.
TEST(Attention, HugeScores) {
  for (const op::KvType type : kTypes)
    for (const int winner : {3, 70, 140}) {
      AttentionOp op(
          {.kv = {1, 16, type}, .n_h = 1, .window = kAllKeys, .rows = consecutive_rows(140, 1)}, 5);
      std::fill(op.q().begin(), op.q().end(), 0.0f);
      op.q()[0] = 100.0f;
      for (int key = 0; key <= 140; ++key)
        op.pages().set_k(0, key, 0, 0, key == winner ? 300.0f : -300.0f);
      verify(op);
      for (int i = 0; i < 16; ++i)
        EXPECT_EQ(op.out(0, 0, i), op.pages().v(0, winner, 0, i)) << winner;
    }
}

TEST(Attention, EqualScoresAverage) {
  AttentionOp op({.kv = {1, 16, op::KvType::f32},
                  .n_h = 1,
                  .window = kAllKeys,
                  .rows = consecutive_rows(127, 1)},
                 6);
  std::fill(op.q().begin(), op.q().end(), 0.0f);
  for (int key = 0; key < 128; ++key)
    for (int i = 0; i < 16; ++i) op.pages().set_v(0, key, 0, i, static_cast<float>(key));
  verify(op);
  EXPECT_EQ(op.out(0, 0, 0), 63.5f);
}

TEST(Attention, NonFiniteVisibleKeyReachesTheOutput) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    for (const int key : {0, 64, 100}) {
      AttentionOp op({.kv = {1, 16, op::KvType::f16},
                      .n_h = 1,
                      .window = kAllKeys,
                      .rows = consecutive_rows(100, 1)},
                     7);
      op.q()[2] = 1;  // so that an infinite key has the largest score, not the smallest
      op.pages().set_k(0, key, 0, 2, bad);
      for (const auto& pool : all_pools()) {
        run(op, *pool, 1);
        EXPECT_TRUE(std::isnan(op.out(0, 0, 5))) << describe(*pool) << ", key " << key;
      }
    }
  }
}

}  // namespace
}  // namespace engine::test
