#include <limits>

#include "tests/support/device_suite.h"
#include "tests/support/ops/attention_op.h"

namespace engine::test {
namespace {

constexpr op::KvType kTypes[] = {op::KvType::f16, op::KvType::f32};
constexpr int kAllKeys = 0;  // window of a global layer

std::string label(const AttentionOp::Shape& shape) {
  const op::KvRow& last = shape.rows.back();
  return std::to_string(shape.n_h) + " heads on " + std::to_string(shape.kv.n_kv) + " of " +
         std::to_string(shape.kv.d) + (shape.kv.type == op::KvType::f16 ? " f16" : " f32") +
         ", window " + std::to_string(shape.window) + ", " + std::to_string(shape.rows.size()) +
         " rows, pos " + std::to_string(last.pos) + " until " + std::to_string(last.attend_until);
}

void trace_and_verify(const AttentionOp::Shape& shape) {
  SCOPED_TRACE(label(shape));
  verify_device(AttentionOp(shape, 1));
}

// Tiles that blocks hand over to the last of them: fewer and more splits than tiles, and a number that
// does not divide them; few rows and many.
TEST(AttentionDevice, Splits) {
  for (const int n_splits : {2, 3, 8})
    for (const int pos : {0, 63, 64, 191, 700})
      for (const int window : {kAllKeys, 130})
        trace_and_verify({.kv = {2, 16, op::KvType::f16},
                          .n_h = 4,
                          .window = window,
                          .rows = consecutive_rows(pos, 2),
                          .n_splits = n_splits});
  for (const int n_t : {1, 8, 9})
    trace_and_verify({.kv = {1, 72, op::KvType::f32},
                      .n_h = 6,
                      .window = kAllKeys,
                      .rows = consecutive_rows(130, n_t),
                      .n_splits = 4});
}

// So many that they are merged by a launch of their own; a row beside them sees one tile only.
TEST(AttentionDevice, SplitsOfManyTiles) {
  trace_and_verify({.kv = {1, 72, op::KvType::f16},
                    .n_h = 2,
                    .window = kAllKeys,
                    .rows = {{64 * 32, 64 * 32, 0}, {5, 5, 1}, {64 * 70, 64 * 70, 0}},
                    .n_splits = 3});
  for (const int n_splits : {4, 64})
    trace_and_verify({.kv = {1, 16, op::KvType::f16},
                      .n_h = 4,
                      .window = kAllKeys,
                      .rows = consecutive_rows(64 * 33 + 5, 2),
                      .n_splits = n_splits});
  trace_and_verify({.kv = {1, 256, op::KvType::f16},
                    .n_h = 4,
                    .window = 512,
                    .rows = consecutive_rows(1000, 1),
                    .n_splits = 9});
}

// More splits than the window, or the window and an image span, touch tiles.
TEST(AttentionSimt, SplitsOfLocalLayers) {
  for (const int n_splits : {2, 40})
    for (const int window : {1, 2, 64, 65, 66, 512}) {
      trace_and_verify({.kv = {1, 16, op::KvType::f16},
                        .n_h = 4,
                        .window = window,
                        .rows = consecutive_rows(64 * 40 - 1, 2),
                        .n_splits = n_splits});
      trace_and_verify({.kv = {1, 16, op::KvType::f16},
                        .n_h = 4,
                        .window = window,
                        .rows = {{2500, 2500, 0}, {2300, 2310, 1}, {2300, 2450, 2}},
                        .n_splits = n_splits});
    }
}

// Query heads on KV heads, with one, two, three, four and eight to share each.
constexpr std::pair<int, int> kHeads[] = {{1, 1}, {4, 2}, {3, 1}, {4, 1}, {8, 1}};

// Few rows and many, around a page border.
TEST(AttentionDevice, HeadShapes) {
  for (const op::KvType type : kTypes)
    for (const int d : {16, 72, 128, 256})
      for (const auto& [n_h, n_kv] : kHeads)
        for (const int n_t : {2, 9})
          trace_and_verify({.kv = {n_kv, d, type},
                            .n_h = n_h,
                            .window = kAllKeys,
                            .rows = consecutive_rows(65 - n_t / 2, n_t)});
}

TEST(AttentionDevice, LargeHeads) {
  for (const int d : {514, 1024})
    for (const int n_t : {1, 9})
      trace_and_verify(
          {.kv = {1, d, op::KvType::f16}, .n_h = 2, .window = 3, .rows = consecutive_rows(5, n_t)});
}

TEST(AttentionDevice, PositionsAtPageBorders) {
  for (const op::KvType type : kTypes)
    for (const int pos : {0, 1, 62, 63, 64, 127, 128, 191, 400})
      trace_and_verify(
          {.kv = {1, 32, type}, .n_h = 2, .window = kAllKeys, .rows = consecutive_rows(pos, 1)});
}

TEST(AttentionDevice, Windows) {
  for (const int window : {1, 2, 63, 64, 65, 512})
    for (const int pos : {0, 63, 64, 511, 600})
      trace_and_verify({.kv = {1, 16, op::KvType::f16},
                        .n_h = 2,
                        .window = window,
                        .rows = consecutive_rows(pos, 1)});
}

TEST(AttentionDevice, Prompts) {
  for (const int n_t : {1, 8, 9, 63, 64, 65, 130})
    trace_and_verify({.kv = {1, 16, op::KvType::f16},
                      .n_h = 4,
                      .window = kAllKeys,
                      .rows = consecutive_rows(0, n_t)});
  for (const int n_t : {10, 70})
    trace_and_verify({.kv = {1, 16, op::KvType::f16},
                      .n_h = 1,
                      .window = 64,
                      .rows = consecutive_rows(60, n_t)});
}

TEST(AttentionDevice, HeadsOverWindowBorders) {
  for (const auto& [n_h, n_kv] : kHeads)
    for (const int window : {1, 64, 65})
      for (const int n_t : {3, 12})
        trace_and_verify({.kv = {n_kv, 40, op::KvType::f16},
                          .n_h = n_h,
                          .window = window,
                          .rows = consecutive_rows(125, n_t)});
}

// Neighbouring rows of different sequences, and more of them than are "few".
TEST(AttentionDevice, Sequences) {
  const std::vector<op::KvRow> rows = {{200, 200, 0}, {5, 5, 1},   {6, 6, 1}, {64, 64, 2},
                                       {201, 201, 0}, {0, 0, 3},   {7, 7, 1}, {202, 202, 0},
                                       {190, 190, 1}, {65, 65, 2}, {1, 1, 3}};
  for (const auto& [n_h, n_kv] : kHeads)
    for (const std::size_t n : {7u, 11u})
      trace_and_verify({.kv = {n_kv, 16, op::KvType::f16},
                        .n_h = n_h,
                        .window = 100,
                        .rows = {rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(n)}});
}

// Between what two rows of a sequence see lie pages that neither does.
TEST(AttentionDevice, RowsFarApart) {
  for (const auto& [n_h, n_kv] : kHeads)
    trace_and_verify({.kv = {n_kv, 16, op::KvType::f16},
                      .n_h = n_h,
                      .window = 10,
                      .rows = {{5, 5, 0},
                               {500, 500, 0},
                               {63, 63, 0},
                               {300, 310, 0},
                               {301, 310, 0},
                               {400, 400, 0},
                               {401, 401, 0},
                               {130, 130, 0},
                               {131, 131, 0}}});
}

// An image span: every row sees up to the span's end.
TEST(AttentionDevice, UntilBeyondThePosition) {
  for (const auto& [n_h, n_kv] : kHeads)
    for (const int window : {kAllKeys, 2, 64})
      trace_and_verify({.kv = {n_kv, 16, op::KvType::f16},
                        .n_h = n_h,
                        .window = window,
                        .rows = {{60, 130, 0}, {100, 130, 0}, {130, 130, 0}}});
}

TEST(AttentionDevice, AnyAlignment) {
  for (const std::size_t misalign : {1u, 3u})
    for (const int n_t : {2, 10})
      trace_and_verify({.kv = {1, 72, op::KvType::f16},
                        .n_h = 3,
                        .window = kAllKeys,
                        .rows = consecutive_rows(90, n_t),
                        .misalign = misalign});
}

TEST(AttentionDevice, NoRows) {
  verify_device(
      AttentionOp({.kv = {1, 64, op::KvType::f16}, .n_h = 1, .window = kAllKeys, .rows = {}}, 2));
}

// Scores so far apart that one key takes all, in the first, a middle or the last tile.
TEST(AttentionDevice, HugeScores) {
  for (const int winner : {3, 70, 140}) {
    AttentionOp op({.kv = {1, 16, op::KvType::f32},
                    .n_h = 1,
                    .window = kAllKeys,
                    .rows = consecutive_rows(140, 1)},
                   3);
    std::fill(op.q().begin(), op.q().end(), 0.0f);
    op.q()[0] = 100.0f;
    for (int key = 0; key <= 140; ++key)
      op.pages().set_k(0, key, 0, 0, key == winner ? 300.0f : -300.0f);
    verify_device(op);
  }
}

TEST(AttentionDevice, NonFiniteVisibleKey) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
        -std::numeric_limits<float>::infinity()})
    for (const int key : {0, 64, 100}) {
      AttentionOp op({.kv = {1, 16, op::KvType::f16},
                      .n_h = 1,
                      .window = kAllKeys,
                      .rows = consecutive_rows(92, 9)},
                     4);
      for (std::size_t t = 0; t < 9; ++t) op.q()[16 * t + 2] = 1;
      op.pages().set_k(0, key, 0, 2, bad);
      verify_device(op);
    }
}

}  // namespace
}  // namespace engine::test
