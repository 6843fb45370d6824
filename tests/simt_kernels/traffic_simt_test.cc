// What the kernels of a decode step and of a prompt ask of memory, at the shapes of Gemma 3 270M.
#include "tests/support/device_suite.h"
#include "tests/support/ops/attention_op.h"
#include "tests/support/ops/ffn_gate_up_op.h"
#include "tests/support/ops/head_logits_op.h"
#include "tests/support/ops/matmul_op.h"
#include "tests/support/ops/norm_quantize_op.h"
#include "tests/support/ops/qk_norm_rope_kv_op.h"
#include "tests/support/ops/residual_norm_quantize_op.h"

namespace engine::test {
namespace {

using gguf::Type;

// What the launches of fn(stream) ask of memory.
template <class Fn>
std::vector<simt::Statistics> traffic_of(const Fn& fn) {
  simt_device().options.statistics = true;
  simt_device().launches.clear();
  on_device(kDeviceRuns[0], fn);
  simt_device().options.statistics = false;
  return std::move(simt_device().launches);
}

// And a run of all rows.
template <class Op>
std::vector<simt::Statistics> traffic(Op& op) {
  op.reset();
  return traffic_of([&](auto& stream) { op.run(0, op.n_t(), stream); });
}

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

// The matrices of the 270M model, the head's rows reduced: head_lanes lanes get a head of planes in one request,
// every other byte is asked for once by `passes` launches' blocks.
struct WeightMatrix {
  gguf::Type type;
  int n_out, n_in;
};
void check_weights(const std::vector<WeightMatrix>& matrices, int n_t, std::uint64_t passes,
                   unsigned head_lanes) {
  std::vector<MatmulOp> ops;
  for (const auto& [type, n_out, n_in] : matrices)
    ops.emplace_back(MatmulOp::Shape{type, op::Layout::device_planes, n_out, n_in, n_t}, 1);
  std::vector<op::MatmulArgs> args;
  const auto launches = traffic_of([&](auto& stream) {
    for (MatmulOp& op : ops) args.push_back(op.args(0, n_t, stream));
    matmuls(args, stream);
  });
  ASSERT_EQ(launches.size(), 1u);
  EXPECT_GE(launches[0].loads.sector_efficiency(), 0.95);
  EXPECT_LE(launches[0].worst_ways(), 2) << "at line " << launches[0].worst_conflict.line;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const WeightMatrix& w = matrices[i];
    SCOPED_TRACE(std::string(gguf::name(w.type)) + " " + std::to_string(w.n_out) + " x " +
                 std::to_string(w.n_in) + ", " + std::to_string(n_t) + " columns");
    const simt::BufferTraffic* traffic = launches[0].buffer(args[i].w.data);
    ASSERT_NE(traffic, nullptr);
    // No group of these has padding.
    EXPECT_EQ(traffic->unique_loaded_bytes, ops[i].bytes());
    const int head = w.type == Type::q4_k ? 4 : w.type == Type::q6_k ? 2 : 0;
    const std::uint64_t heads = count(w.n_out, w.n_in / op::kSegment, head);
    EXPECT_EQ(traffic->loaded_bytes, passes * (ops[i].bytes() + (head_lanes - 1) * heads));
  }
}

TEST(TrafficSimt, FewColumnsReadWeightsOnce) {
  for (const int n_t : {1, 2, 4, 8}) {
    check_weights({{Type::q5_0, 1024, 640}, {Type::q5_0, 256, 640}, {Type::q8_0, 256, 640}}, n_t, 1,
                  8);
    check_weights({{Type::q5_0, 2048, 640}, {Type::q5_0, 2048, 640}}, n_t, 1, 8);
    check_weights({{Type::q4_k, 640, 1024}}, n_t, 1, 8);
    check_weights({{Type::q4_k, 640, 2048}}, n_t, 1, 8);
    check_weights({{Type::q6_k, 640, 2048}}, n_t, 1, 8);
  }
  check_weights({{Type::q8_0, 65536, 128}}, 1, 1, 8);  // warps have several groups of rows
}

TEST(TrafficSimt, TheHeadFindsItsBestLogitsOnTheWay) {
  HeadLogitsOp op({gguf::Type::q8_0, op::Layout::device_planes, 65536, 65536, 128, 64}, 6);
  const auto launches = traffic(op);
  ASSERT_EQ(launches.size(), 2u);
  EXPECT_GE(launches[0].loads.sector_efficiency(), 0.95);
  EXPECT_EQ(
      launches[0].buffer(op.matmul().args(0, 1, simt::Stream(simt_device())).w.data)->loaded_bytes,
      op.matmul().bytes());
  // The second one reads what the first has found, and few of the logits.
  EXPECT_LT(launches[1].loads.bytes, 65536u * sizeof(float) / 2);
}

TEST(TrafficSimt, WeightsAreReadOncePerTileOfColumns) {
  for (const int n_t : {9, 33})
    for (const auto& [type, n_in] :
         {std::pair(Type::q8_0, 640), {Type::q5_0, 640}, {Type::q4_k, 1024}, {Type::q6_k, 2048}})
      check_weights({{type, 192, n_in}}, n_t, n_t > 32 ? 2 : 1, 4);
}

TEST(TrafficSimt, GateAndUpReadWeightsOnceInOneLaunch) {
  FfnGateUpOp op({Type::q5_0, Type::q5_0, op::Layout::device_planes, 2048, 640, 1}, 3);
  const std::byte* planes = nullptr;
  const auto launches = traffic_of([&](auto& stream) {
    planes = op.gate().args(0, 1, stream).w.data;
    op.run(0, 1, stream);
  });
  ASSERT_EQ(launches.size(), 1u);
  EXPECT_GE(launches[0].loads.sector_efficiency(), 0.95);
  EXPECT_LE(launches[0].worst_ways(), 2);
  const simt::BufferTraffic* weights = launches[0].buffer(planes);
  ASSERT_NE(weights, nullptr);
  EXPECT_EQ(weights->loaded_bytes, op.gate().bytes());
  EXPECT_EQ(weights->unique_loaded_bytes, op.gate().bytes());
}

}  // namespace
}  // namespace engine::test
