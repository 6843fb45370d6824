#include <limits>

#include "tests/support/kernel_suite.h"
#include "tests/support/ops/matmul_op.h"

namespace engine::test {
namespace {

using gguf::Type;
using op::Layout;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();
// Of special values: few columns and many, which go through different kernels.
constexpr int kColumnCounts[] = {3, 19};

std::string label(const MatmulOp::Shape& shape) {
  return std::string(gguf::name(shape.type)) + " " + name(shape.layout) + " " +
         std::to_string(shape.n_out) + " x " + std::to_string(shape.n_in) + ", " +
         std::to_string(shape.n_t) + " columns";
}

void trace_and_verify(const MatmulOp::Shape& shape) {
  SCOPED_TRACE(label(shape));
  verify(MatmulOp(shape, 1));
}

// Every layout of a type.
std::vector<Layout> layouts(Type type) {
  std::vector<Layout> layouts;
  for (const Layout layout : kLayouts)
    if (cpu::has_layout(type, layout)) layouts.push_back(layout);
  return layouts;
}

bool fits(Type type, int n_in) {
  return n_in % static_cast<int>(gguf::traits(type).block_elements) == 0;
}

// Calls fn(type, layout) for every quantised type and layout.
template <class Fn>
void for_quantized(const Fn& fn) {
  for (const Type type : kQuantizedTypes)
    for (const Layout layout : layouts(type)) fn(type, layout);
}

TEST(Matmul, QuantizedRowLengths) {
  for_quantized([](Type type, Layout layout) {
    for (const int n_in : {32, 64, 96, 160, 256, 512, 640, 768, 1024, 1152, 2048})
      if (fits(type, n_in))
        trace_and_verify({.type = type, .layout = layout, .n_out = 17, .n_in = n_in, .n_t = 1});
  });
}

TEST(Matmul, QuantizedColumns) {
  for_quantized([](Type type, Layout layout) {
    for (int n_t = 0; n_t <= 9; ++n_t)
      trace_and_verify({.type = type, .layout = layout, .n_out = 18, .n_in = 512, .n_t = n_t});
    for (const int n_t : {15, 16, 35})
      trace_and_verify({.type = type, .layout = layout, .n_out = 5, .n_in = 256, .n_t = n_t});
    // More than one chunk of a prompt, and rows that no segment of 256 divides.
    if (fits(type, 288) || fits(type, 768))
      trace_and_verify({.type = type,
                        .layout = layout,
                        .n_out = 21,
                        .n_in = fits(type, 288) ? 288 : 768,
                        .n_t = 133});
  });
}

TEST(Matmul, QuantizedOutputs) {
  for_quantized([](Type type, Layout layout) {
    for (const int n_out : {1, 2, 15, 16, 31, 32, 33})
      trace_and_verify({.type = type, .layout = layout, .n_out = n_out, .n_in = 256, .n_t = 2});
  });
}

// The matrices of the 270M model.
TEST(Matmul, RealShapes) {
  struct Real {
    Type type;
    int n_out, n_in;
  };
  for (const Real& real : {Real{Type::q5_0, 1024, 640},
                           {Type::q8_0, 256, 640},
                           {Type::q5_0, 2048, 640},
                           {Type::q4_k, 640, 1024},
                           {Type::q4_k, 640, 2048},
                           {Type::q6_k, 640, 2048}})
    trace_and_verify({.type = real.type,
                      .layout = Layout::planes,
                      .n_out = real.n_out,
                      .n_in = real.n_in,
                      .n_t = 2});
}

// Matmuls in one parallel loop: matrices of any number of items, none and fewer than threads
// included, in both layouts.
TEST(Matmul, SeveralAtOnce) {
  std::vector<MatmulOp> ops;
  ops.emplace_back(
      MatmulOp::Shape{
          .type = Type::q5_0, .layout = Layout::planes, .n_out = 1024, .n_in = 64, .n_t = 2},
      1);
  ops.emplace_back(
      MatmulOp::Shape{
          .type = Type::q8_0, .layout = Layout::planes, .n_out = 250, .n_in = 64, .n_t = 2},
      2);
  ops.emplace_back(
      MatmulOp::Shape{.type = Type::q4_0, .layout = Layout::rows, .n_out = 3, .n_in = 64, .n_t = 2},
      3);
  ops.emplace_back(
      MatmulOp::Shape{
          .type = Type::f16, .layout = Layout::rows, .n_out = 2000, .n_in = 64, .n_t = 2},
      4);
  for (const auto& pool : all_pools()) {
    for (const int n_t : {0, 1, 2}) {
      std::vector<Bits> expected;
      std::vector<op::MatmulArgs> args;
      for (MatmulOp& op : ops) {
        op.reset();
        ASSERT_TRUE(pool->run([&] { op.run(0, n_t, *pool); }).ok());
        expected.push_back(op.bits());
        op.reset();
        args.push_back(op.args(0, n_t, *pool));
      }
      ASSERT_TRUE(pool->run([&] { cpu::matmuls(args, *pool); }).ok());
      for (std::size_t i = 0; i < ops.size(); ++i)
        EXPECT_EQ(compare_bits(expected[i], ops[i].bits()), "")
            << describe(*pool) << ", matmul " << i << ", " << n_t << " columns";
    }
  }
}

TEST(Matmul, FloatRowLengths) {
  for (const Type type : kFloatTypes)
    for (const int n_in : {1, 7, 8, 31, 32, 33, 64, 72, 255, 256, 257, 640, 1152})
      trace_and_verify({.type = type, .layout = Layout::rows, .n_out = 5, .n_in = n_in, .n_t = 2});
}

TEST(Matmul, FloatColumnsAndAlignment) {
  for (const Type type : kFloatTypes)
    for (int n_t = 0; n_t <= 9; ++n_t)
      trace_and_verify({.type = type,
                        .layout = Layout::rows,
                        .n_out = 9,
                        .n_in = 100,
                        .n_t = n_t,
                        .misalign = 3});
}

TEST(Matmul, SumsOfProducts) {
  MatmulOp op({.type = Type::f32, .layout = Layout::rows, .n_out = 2, .n_in = 3, .n_t = 1}, 2);
  const float w[] = {1, 2, 3, -1, 0, 4};
  std::memcpy(op.weights().data(), w, sizeof(w));
  std::copy_n(w, 3, op.x().begin());
  verify(op);
  EXPECT_EQ(op.y(0, 0), 14.0f);
  EXPECT_EQ(op.y(0, 1), 11.0f);
}

// Every byte of quants and sub-scales at an extreme, against activations at an extreme: the largest
// integer sums there are. Products with sub-scales must not be formed in 32-bit integers.
TEST(Matmul, ExtremeBlocks) {
  for_quantized([](Type type, Layout layout) {
    for (const int fill : {0x00, 0x7F, 0x80, 0xFF}) {
      for (const auto& [x, n_t] : {std::pair(1.0f, 3), {-1.0f, 3}, {1.0f, 19}, {-1.0f, 19}}) {
        const MatmulOp::Shape shape = {
            .type = type, .layout = layout, .n_out = 34, .n_in = 512, .n_t = n_t};
        SCOPED_TRACE(label(shape) + " filled with " + std::to_string(fill) + ", x " +
                     std::to_string(x));
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
        std::fill(op.x().begin(), op.x().end(), x);
        op.prepare();
        verify(op);
      }
    }
  });
}

// -32 * -128 in every element: the sum over a block, 32 * 32639 * 4096, does not fit 32 bits.
TEST(Matmul, LargestQ6KSums) {
  for (const Layout layout : layouts(Type::q6_k)) {
    for (const auto& [x, n_t] : {std::pair(1.0f, 1), {-1.0f, 1}, {1.0f, 19}, {-1.0f, 19}}) {
      MatmulOp op({.type = Type::q6_k, .layout = layout, .n_out = 34, .n_in = 256, .n_t = n_t}, 4);
      for (std::size_t b = 0; b < op.weights().n_blocks<gguf::BlockQ6_K>(); ++b) {
        gguf::BlockQ6_K& block = op.weights().blocks<gguf::BlockQ6_K>()[b];
        block = {};
        for (std::int8_t& scale : block.scales) scale = -128;
        block.d = op::f16_from_f32(1);
      }
      std::fill(op.x().begin(), op.x().end(), x);
      op.prepare();
      verify(op);
      EXPECT_NEAR(op.y(n_t - 1, 33), x * 256 * 4096, 1.0f);
    }
  }
}

TEST(Matmul, SubnormalScales) {
  for_quantized([](Type type, Layout layout) {
    for (const int n_t : kColumnCounts) {
      const MatmulOp::Shape shape = {
          .type = type, .layout = layout, .n_out = 34, .n_in = 256, .n_t = n_t};
      SCOPED_TRACE(label(shape));
      MatmulOp op(shape, 5);
      Random random(6);
      gguf::visit_block(type, [&]<class Block>() {
        for (std::size_t b = 0; b < op.weights().n_blocks<Block>(); ++b)
          op.weights().blocks<Block>()[b].d = static_cast<std::uint16_t>(1 + random.below(0x3FF));
      });
      op.prepare();
      verify(op);
    }
  });
}

// One bad activation spoils its column, and only that.
TEST(Matmul, NonFiniteActivations) {
  const auto check = [](Type type, Layout layout) {
    SCOPED_TRACE(gguf::name(type));
    for (const int n_t : kColumnCounts) {
      for (const float bad : {kNan, kInfinity, -kInfinity}) {
        MatmulOp op({.type = type, .layout = layout, .n_out = 34, .n_in = 256, .n_t = n_t}, 7);
        op.x()[256 + 200] = bad;
        op.prepare();
        for (const auto& pool : all_pools()) {
          run(op, *pool, n_t);
          for (int t = 0; t < n_t; ++t)
            for (int o = 0; o < 34; ++o)
              ASSERT_EQ(std::isfinite(op.y(t, o)), t != 1) << describe(*pool) << ", output " << o;
        }
      }
    }
  };
  for_quantized(check);
  for (const Type type : kFloatTypes) check(type, Layout::rows);
}

// One bad scale spoils its output row, and only that.
TEST(Matmul, NonFiniteScales) {
  for_quantized([](Type type, Layout layout) {
    SCOPED_TRACE(gguf::name(type));
    for (const auto& test : {std::pair(0x7E00, 3), {0x7C00, 3}, {0xFC00, 3}, {0x7E00, 19}}) {
      const int bad = test.first, n_t = test.second;
      MatmulOp op({.type = type, .layout = layout, .n_out = 34, .n_in = 512, .n_t = n_t}, 8);
      gguf::visit_block(type, [&]<class Block>() {
        const int blocks_per_row = 512 / Block::kElements;
        const int last_of_row_16 = 17 * blocks_per_row - 1;
        op.weights().blocks<Block>()[last_of_row_16].d = static_cast<std::uint16_t>(bad);
      });
      op.prepare();
      for (const auto& pool : all_pools()) {
        run(op, *pool, n_t);
        for (int t = 0; t < n_t; ++t)
          for (int o = 0; o < 34; ++o)
            ASSERT_EQ(std::isfinite(op.y(t, o)), o != 16) << describe(*pool) << ", output " << o;
      }
    }
  });
}

TEST(Matmul, ZeroActivationsGiveZero) {
  for_quantized([](Type type, Layout layout) {
    MatmulOp op({.type = type, .layout = layout, .n_out = 16, .n_in = 256, .n_t = 1}, 9);
    std::fill(op.x().begin(), op.x().end(), 0.0f);
    op.prepare();
    verify(op);
    for (int o = 0; o < 16; ++o) EXPECT_EQ(op.y(0, o), 0.0f) << gguf::name(type);
  });
}

}  // namespace
}  // namespace engine::test
