#include <limits>

#include "tests/support/device_suite.h"
#include "tests/support/ops/matmul_op.h"

namespace engine::test {
namespace {

using gguf::Type;
using op::Layout;

constexpr Type kPlaneTypes[] = {Type::q8_0, Type::q5_0, Type::q4_k, Type::q6_k};
// Of special values: few columns and many, which go through different kernels.
constexpr int kColumnCounts[] = {3, 19};

std::string label(const MatmulOp::Shape& shape) {
  return std::string(gguf::name(shape.type)) + " " + name(shape.layout) + " " +
         std::to_string(shape.n_out) + " x " + std::to_string(shape.n_in) + ", " +
         std::to_string(shape.n_t) + " columns";
}

bool fits(const MatmulOp::Shape& shape) {
  return shape.n_in % static_cast<int>(gguf::traits(shape.type).block_elements) == 0;
}

void trace_and_verify(const MatmulOp::Shape& shape) {
  if (!fits(shape)) return;
  SCOPED_TRACE(label(shape));
  verify_device(MatmulOp(shape, 1));
}

// Calls fn(type, layout) for every quantised type and layout.
template <class Fn>
void for_quantized(const Fn& fn) {
  for (const Type type : kQuantizedTypes) fn(type, Layout::rows);
  for (const Type type : kPlaneTypes) fn(type, Layout::device_planes);
}

TEST(MatmulDevice, RowLengths) {
  for_quantized([](Type type, Layout layout) {
    for (const int n_in : {32, 64, 96, 160, 256, 288, 512, 640, 1024, 2048})
      for (const int n_t : {1, 9})
        trace_and_verify({.type = type, .layout = layout, .n_out = 9, .n_in = n_in, .n_t = n_t});
  });
}

// Rows that are longer than what shared memory takes of the activations at a time.
TEST(MatmulDevice, LongRows) {
  for (const Type type : kPlaneTypes)
    for (const int n_t : {1, 5})
      for (const int n_in : {2304, 4096, 4384})
        trace_and_verify(
            {.type = type, .layout = Layout::device_planes, .n_out = 6, .n_in = n_in, .n_t = n_t});
}

TEST(MatmulDevice, Columns) {
  for_quantized([](Type type, Layout layout) {
    for (const int n_t : {0, 1, 2, 3, 4, 5, 8, 9, 16, 17})
      trace_and_verify({.type = type, .layout = layout, .n_out = 18, .n_in = 256, .n_t = n_t});
  });
  for (const Type type : kPlaneTypes)
    for (const int n_t : {63, 64, 65, 130})
      trace_and_verify(
          {.type = type, .layout = Layout::device_planes, .n_out = 21, .n_in = 768, .n_t = n_t});
  trace_and_verify(
      {.type = Type::q2_k, .layout = Layout::rows, .n_out = 5, .n_in = 256, .n_t = 65});
}

TEST(MatmulDevice, Outputs) {
  for_quantized([](Type type, Layout layout) {
    for (const int n_out : {1, 2, 15, 16, 17, 33, 640})
      trace_and_verify({.type = type,
                        .layout = layout,
                        .n_out = n_out,
                        .n_in = 256,
                        .n_t = n_out < 640 ? 2 : 1});
    for (const int n_out : {1, 33, 65})
      trace_and_verify({.type = type, .layout = layout, .n_out = n_out, .n_in = 256, .n_t = 10});
  });
}

// So many that matvec's warps have several groups of four, one after the other.
TEST(MatmulDevice, ManyRows) {
  trace_and_verify({.type = Type::q8_0,
                    .layout = Layout::device_planes,
                    .n_out = 65536 + 5,
                    .n_in = 64,
                    .n_t = 1});
}

TEST(MatmulDevice, Floats) {
  for (const Type type : kFloatTypes) {
    for (const int n_in : {1, 7, 31, 32, 33, 72, 255, 256, 257, 640})
      trace_and_verify({.type = type, .layout = Layout::rows, .n_out = 5, .n_in = n_in, .n_t = 2});
    for (const int n_t : {0, 1, 3, 8, 9, 17})
      trace_and_verify({.type = type,
                        .layout = Layout::rows,
                        .n_out = 9,
                        .n_in = 100,
                        .n_t = n_t,
                        .misalign = 3});
  }
}

// More columns than eight times the 65,535 blocks that a grid has in y.
TEST(MatmulDevice, ManyColumns) {
  MatmulOp op({.type = Type::f32, .layout = Layout::rows, .n_out = 1, .n_in = 1, .n_t = 524'289},
              7);
  const Bits expected = cpu_bits(op);
  ASSERT_TRUE(run_on_device(op, kDeviceRuns[0], op.n_t()));
  EXPECT_EQ(compare_bits(expected, op.bits()), "");
}

// Several matrices in as few launches as there can be: more than one launch takes, in both layouts.
TEST(MatmulDevice, SeveralAtOnce) {
  for (const int n_t : {0, 1, 2, 20}) {
    std::vector<MatmulOp> ops;
    std::uint64_t seed = 1;
    const auto add = [&](Type type, Layout layout, int n_out) {
      ops.emplace_back(MatmulOp::Shape{type, layout, n_out, 256, n_t}, seed++);
    };
    add(Type::q5_0, Layout::device_planes, 40);
    add(Type::q5_0, Layout::device_planes, 7);
    add(Type::f16, Layout::rows, 5);
    add(Type::q8_0, Layout::device_planes, 17);
    add(Type::q4_k, Layout::device_planes, 1);
    add(Type::q4_1, Layout::rows, 3);
    add(Type::q6_k, Layout::device_planes, 30);
    std::vector<Bits> expected;
    for (MatmulOp& op : ops) expected.push_back(cpu_bits(op));
    for (const DeviceRun& run : kDeviceRuns) {
      SCOPED_TRACE(std::string(run.name) + ", " + std::to_string(n_t) + " columns");
      for (MatmulOp& op : ops) op.reset();
      ASSERT_TRUE(on_device(run, [&](auto& stream) {
        std::vector<op::MatmulArgs> args;
        for (MatmulOp& op : ops) args.push_back(op.args(0, n_t, stream));
        matmuls(args, stream);
      }));
      for (std::size_t i = 0; i < ops.size(); ++i)
        EXPECT_EQ(compare_bits(expected[i], ops[i].bits()), "") << i;
    }
  }
}

// Every byte of quants and sub-scales at an extreme, against activations at an extreme: the largest
// integer sums there are. Products with sub-scales must not be formed in 32-bit integers.
TEST(MatmulDevice, ExtremeBlocks) {
  for_quantized([](Type type, Layout layout) {
    for (const int n_t : kColumnCounts) {
      const MatmulOp::Shape shape = {
          .type = type, .layout = layout, .n_out = 6, .n_in = 512, .n_t = n_t};
      for (const int fill : {0x00, 0x7F, 0x80, 0xFF}) {
        SCOPED_TRACE(label(shape) + " filled with " + std::to_string(fill));
        MatmulOp op(shape, 3);
        gguf::visit_block(type, [&]<class Block>() {
          std::memset(op.weights().data(), fill, op.weights().n_bytes());
          for (std::size_t b = 0; b < op.weights().n_blocks<Block>(); ++b) {
            Block& block = op.weights().blocks<Block>()[b];
            block.d = op::f16_from_f32(1);
            if constexpr (Block::kMinimum == gguf::Minimum::subtract)
              block.dmin = op::f16_from_f32(1);
            if constexpr (Block::kMinimum == gguf::Minimum::add) block.m = op::f16_from_f32(-1);
          }
        });
        std::fill(op.x().begin(), op.x().end(), 1.0f);
        std::fill(op.x().begin(), op.x().begin() + 512, -1.0f);
        op.prepare();
        verify_device(op);
      }
    }
  });
}

// -32 * -128 in every element: the sum over a block, 32 * 32639 * 4096, does not fit 32 bits.
TEST(MatmulDevice, LargestQ6KSums) {
  for (const Layout layout : {Layout::rows, Layout::device_planes}) {
    for (const int n_t : kColumnCounts) {
      MatmulOp op({.type = Type::q6_k, .layout = layout, .n_out = 6, .n_in = 256, .n_t = n_t}, 4);
      for (std::size_t b = 0; b < op.weights().n_blocks<gguf::BlockQ6_K>(); ++b) {
        gguf::BlockQ6_K& block = op.weights().blocks<gguf::BlockQ6_K>()[b];
        block = {};
        for (std::int8_t& scale : block.scales) scale = -128;
        block.d = op::f16_from_f32(1);
      }
      std::fill(op.x().begin(), op.x().end(), 1.0f);
      op.prepare();
      verify_device(op);
    }
  }
}

// Rows of weights whose scales are subnormal, infinite or NaN, and columns of activations that are.
TEST(MatmulDevice, SpecialScales) {
  for_quantized([](Type type, Layout layout) {
    for (const int n_t : kColumnCounts) {
      const MatmulOp::Shape shape = {
          .type = type, .layout = layout, .n_out = 12, .n_in = 512, .n_t = n_t};
      SCOPED_TRACE(label(shape));
      MatmulOp op(shape, 5);
      Random random(6);
      gguf::visit_block(type, [&]<class Block>() {
        Block* blocks = op.weights().blocks<Block>();
        const int per_row = 512 / Block::kElements;
        for (int b = 0; b < 3 * per_row; ++b)
          blocks[b].d = static_cast<std::uint16_t>(1 + random.below(0x3FF));
        blocks[4 * per_row].d = 0x7E00;      // NaN
        blocks[6 * per_row - 1].d = 0x7C00;  // infinity
        blocks[7 * per_row].d = 0xFC00;
        if constexpr (Block::kMinimum == gguf::Minimum::subtract) blocks[8 * per_row].dmin = 0x7C00;
        if constexpr (Block::kMinimum == gguf::Minimum::add) blocks[8 * per_row].m = 0xFC00;
      });
      op.x()[512 + 200] = std::numeric_limits<float>::infinity();
      std::fill_n(op.x().begin() + 1024, 64, 1e-38f);
      op.prepare();
      verify_device(op);
    }
  });
}

}  // namespace
}  // namespace engine::test
