// What the kernels of a decode step and of a prompt ask of memory, at the shapes of Gemma 3 270M.
#include "tests/support/ops/attention_op.h"
#include "tests/support/ops/norm_quantize_op.h"
#include "tests/support/ops/qk_norm_rope_kv_op.h"
#include "tests/support/ops/residual_norm_quantize_op.h"
#include "tests/support/simt_suite.h"

namespace engine::test {
namespace {

constexpr op::KvShape kKv = {1, 256, op::KvType::f16};
constexpr int kHeads = 4, kWidth = 640;

TEST(TrafficSimt, DecodeReadsEveryKeyAndValueOnce) {
  for (const int n_splits : {1, 3}) {
    AttentionOp op({.kv = kKv,
                    .n_h = kHeads,
                    .window = 0,
                    .rows = consecutive_rows(191, 1),
                    .n_splits = n_splits},
                   1);
    const auto launches = traffic(op);
    ASSERT_EQ(launches.size(), 1u);
    for (const Buffer<std::byte>& page : op.pages().storage()) {
      const simt::BufferTraffic* traffic = launches[0].buffer(page.data());
      ASSERT_NE(traffic, nullptr);
      EXPECT_EQ(traffic->loaded_bytes, kKv.page_bytes());
      EXPECT_EQ(traffic->unique_loaded_bytes, kKv.page_bytes());
    }
    EXPECT_GE(launches[0].loads.sector_efficiency(), 0.95);
  }
}

// Of the last page, what the last row does not see stays unread, up to the other half of a pair of keys.
TEST(TrafficSimt, DecodeReadsNoUnseenKey) {
  AttentionOp op({.kv = kKv, .n_h = kHeads, .window = 0, .rows = consecutive_rows(68, 1)}, 2);
  const auto launches = traffic(op);
  ASSERT_EQ(launches.size(), 1u);
  const std::size_t n_keys = 5, element = kKv.element_bytes(), d = 256;
  EXPECT_EQ(launches[0].buffer(op.pages().storage()[1].data())->loaded_bytes,
            (n_keys + n_keys % 2 + n_keys) * d * element);
}

// A window of 512 keys touches nine tiles however long the context is, and the last of their blocks merges
// them. A global layer's many tiles need a second launch.
TEST(TrafficSimt, LocalLayersAreOneLaunch) {
  for (const int window : {512, 0}) {
    AttentionOp op({.kv = kKv,
                    .n_h = kHeads,
                    .window = window,
                    .rows = consecutive_rows(2200, 1),
                    .n_splits = 35},
                   3);
    const auto launches = traffic(op);
    ASSERT_EQ(launches.size(), window > 0 ? 1u : 2u);
    EXPECT_EQ(launches[0].grid.z, window > 0 ? 9u : 35u);
  }
}

// A warp stores the weights of one query beside those of the block's other queries, which are loaded together: as
// many ways as there are queries, twice a tile, where loads have one.
TEST(TrafficSimt, AttentionConflictsOnlyWhereWeightsAreStored) {
  for (const int n_t : {1, 16}) {
    AttentionOp op({.kv = kKv, .n_h = kHeads, .window = 0, .rows = consecutive_rows(639, n_t)}, 4);
    const auto launches = traffic(op);
    ASSERT_EQ(launches.size(), 1u);
    const simt::Statistics& launch = launches[0];
    EXPECT_LE(launch.worst_ways(), n_t == 1 ? 4 : 8);
    EXPECT_LE(static_cast<double>(launch.shared_cycles),
              1.05 * static_cast<double>(launch.shared_parts))
        << launch.shared_cycles << " " << launch.shared_parts;
  }
}

// The queries of a block share what it loads: a page is read once for every two rows.
TEST(TrafficSimt, PromptSharesKeysAndValues) {
  constexpr int kRows = 16;
  AttentionOp op({.kv = kKv, .n_h = kHeads, .window = 0, .rows = consecutive_rows(127, kRows)}, 3);
  const auto launches = traffic(op);
  ASSERT_EQ(launches.size(), 1u);
  for (int page = 0; page < 2; ++page)
    EXPECT_EQ(launches[0].buffer(op.pages().storage()[count(page)].data())->loaded_bytes,
              kRows / 2 * kKv.page_bytes());
}

TEST(TrafficSimt, FusedOpsAreOneLaunchWithoutConflicts) {
  NormQuantizeOp norm({.n_t = 1, .n_i = kWidth}, 4);
  ResidualNormQuantizeOp residual({.n_t = 1, .n_i = kWidth}, 5);
  QkNormRopeKvOp qk({.kv = kKv,
                     .n_h = kHeads,
                     .rows = consecutive_rows(100, 1),
                     .n_sequences = 1,
                     .n_positions = 128},
                    6);
  const auto check = [](const std::vector<simt::Statistics>& launches, std::uint64_t n_barriers) {
    ASSERT_EQ(launches.size(), 1u);
    EXPECT_EQ(launches[0].block_barriers, n_barriers);
    EXPECT_EQ(launches[0].worst_ways(), 1);
    EXPECT_GE(launches[0].loads.sector_efficiency(), 0.95);
  };
  check(traffic(norm), 1);
  check(traffic(residual), 2);
  check(traffic(qk), kHeads + 1);
}

}  // namespace
}  // namespace engine::test
