#include <limits>

#include "tests/support/device_suite.h"
#include "tests/support/ops/head_logits_op.h"

namespace engine::test {
namespace {

using gguf::Type;
using op::Layout;

void trace_and_verify(const HeadLogitsOp::Shape& shape) {
  SCOPED_TRACE(std::string(gguf::name(shape.type)) + " " + name(shape.layout) + " " +
               std::to_string(shape.k) + " of " + std::to_string(shape.n_ids) + " of " +
               std::to_string(shape.n_vocab) + " x " + std::to_string(shape.n_in));
  verify_device(HeadLogitsOp(shape, 1));
}

TEST(HeadLogitsDevice, EveryType) {
  for (const Type type : {Type::q8_0, Type::q5_0, Type::q4_k, Type::q6_k})
    for (const int k : {1, 64}) trace_and_verify({type, Layout::device_planes, 300, 300, 256, k});
  for (const Type type : {Type::f16, Type::q4_0})
    trace_and_verify({type, Layout::rows, 300, 290, 256, 5});
}

TEST(HeadLogitsDevice, Sizes) {
  for (const int n_vocab : {1, 15, 16, 17, 129, 1000})
    trace_and_verify({Type::q8_0, Layout::device_planes, n_vocab, n_vocab, 64, 1});
  for (const int n_ids : {64, 65, 80, 999})
    trace_and_verify({Type::q8_0, Layout::device_planes, 1000, n_ids, 64, 64});
  for (const int n_in : {32, 640, 2304})
    trace_and_verify({Type::q8_0, Layout::device_planes, 100, 99, n_in, 40});
}

// Several groups a warp, so that spans are longer, and the last one is not full.
TEST(HeadLogitsDevice, LongSpans) {
  for (const int n_vocab : {65'536, 98'304 + 5})
    trace_and_verify({Type::q8_0, Layout::device_planes, n_vocab, n_vocab - 2, 32, 64});
}

TEST(HeadLogitsDevice, ReportsWhatIsNotFinite) {
  HeadLogitsOp op({Type::q8_0, Layout::device_planes, 200, 100, 64, 8}, 2);
  op.matmul().x()[7] = std::numeric_limits<float>::infinity();
  op.matmul().prepare();
  verify_device(op);
}

}  // namespace
}  // namespace engine::test
