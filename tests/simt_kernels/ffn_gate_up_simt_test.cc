#include <limits>

#include "tests/support/ops/ffn_gate_up_op.h"
#include "tests/support/simt_suite.h"

namespace engine::test {
namespace {

using gguf::Type;
using op::Layout;

void trace_and_verify(const FfnGateUpOp::Shape& shape) {
  SCOPED_TRACE(std::string(gguf::name(shape.gate)) + " and " + std::string(gguf::name(shape.up)) +
               " " + name(shape.layout) + " " + std::to_string(shape.n_out) + " x " +
               std::to_string(shape.n_in) + ", " + std::to_string(shape.n_t) + " columns");
  verify_simt(FfnGateUpOp(shape, 1));
}

TEST(FfnGateUpSimt, ColumnsOfEveryType) {
  for (const Type type : {Type::q8_0, Type::q5_0, Type::q4_k, Type::q6_k})
    for (const int n_t : {0, 1, 2, 3, 8, 9})
      trace_and_verify({type, type, Layout::device_planes, 18, 256, n_t});
}

TEST(FfnGateUpSimt, Sizes) {
  for (const int n_out : {1, 15, 16, 17, 33, 640})
    trace_and_verify({Type::q5_0, Type::q5_0, Layout::device_planes, n_out, 96, 1});
  for (const int n_in : {32, 160, 640, 2304, 4352})
    trace_and_verify({Type::q5_0, Type::q5_0, Layout::device_planes, 9, n_in, 2});
}

// What does not go into one launch.
TEST(FfnGateUpSimt, MixedTypesAndRows) {
  trace_and_verify({Type::q5_0, Type::q8_0, Layout::device_planes, 18, 256, 2});
  trace_and_verify({Type::q4_0, Type::q4_0, Layout::rows, 18, 256, 2});
  trace_and_verify({Type::f16, Type::f16, Layout::rows, 18, 100, 2});
}

TEST(FfnGateUpSimt, NonFinite) {
  FfnGateUpOp op({Type::q8_0, Type::q8_0, Layout::device_planes, 8, 64, 3}, 2);
  op.gate().x()[64 + 7] = std::numeric_limits<float>::infinity();
  op.gate().prepare();
  verify_simt(op);
}

TEST(FfnGateUpSimt, OneLaunchReadsWeightsOnce) {
  FfnGateUpOp op({Type::q5_0, Type::q5_0, Layout::device_planes, 2048, 640, 1}, 3);
  simt::Stream stream(simt_device());
  simt_device().launches.clear();
  simt_device().options.statistics = true;
  op.run(0, 1, stream);
  simt_device().options.statistics = false;
  ASSERT_TRUE(stream.error().ok()) << stream.error().message;
  ASSERT_EQ(simt_device().launches.size(), 1u);
  const simt::Statistics& launch = simt_device().launches.front();
  EXPECT_GE(launch.loads.sector_efficiency(), 0.95);
  EXPECT_LE(launch.worst_ways(), 2);
  const simt::BufferTraffic* weights = launch.buffer(op.gate().args(0, 1, stream).w.data);
  ASSERT_NE(weights, nullptr);
  EXPECT_EQ(weights->loaded_bytes, op.gate().bytes());
  EXPECT_EQ(weights->unique_loaded_bytes, op.gate().bytes());
}

}  // namespace
}  // namespace engine::test
