#include <limits>

#include "tests/support/device_suite.h"
#include "tests/support/ops/ffn_gate_up_op.h"

namespace engine::test {
namespace {

using gguf::Type;
using op::Layout;

void trace_and_verify(const FfnGateUpOp::Shape& shape) {
  SCOPED_TRACE(std::string(gguf::name(shape.gate)) + " and " + std::string(gguf::name(shape.up)) +
               " " + name(shape.layout) + " " + std::to_string(shape.n_out) + " x " +
               std::to_string(shape.n_in) + ", " + std::to_string(shape.n_t) + " columns");
  verify_device(FfnGateUpOp(shape, 1));
}

TEST(FfnGateUpDevice, ColumnsOfEveryType) {
  for (const Type type : {Type::q8_0, Type::q5_0, Type::q4_k, Type::q6_k})
    for (const int n_t : {0, 1, 2, 3, 8, 9})
      trace_and_verify({type, type, Layout::device_planes, 18, 256, n_t});
}

TEST(FfnGateUpDevice, Sizes) {
  for (const int n_out : {1, 15, 16, 17, 33, 640})
    trace_and_verify({Type::q5_0, Type::q5_0, Layout::device_planes, n_out, 96, 1});
  for (const int n_in : {32, 160, 640, 2304, 4352})
    trace_and_verify({Type::q5_0, Type::q5_0, Layout::device_planes, 9, n_in, 2});
}

// What does not go into one launch.
TEST(FfnGateUpDevice, MixedTypesAndRows) {
  trace_and_verify({Type::q5_0, Type::q8_0, Layout::device_planes, 18, 256, 2});
  trace_and_verify({Type::q4_0, Type::q4_0, Layout::rows, 18, 256, 2});
  trace_and_verify({Type::f16, Type::f16, Layout::rows, 18, 100, 2});
}

TEST(FfnGateUpDevice, NonFinite) {
  FfnGateUpOp op({Type::q8_0, Type::q8_0, Layout::device_planes, 8, 64, 3}, 2);
  op.gate().x()[64 + 7] = std::numeric_limits<float>::infinity();
  op.gate().prepare();
  verify_device(op);
}

}  // namespace
}  // namespace engine::test
