// The arithmetic of the contracts in kernels/op, written out plainly in fp32: every CPU level must
// give these bits. (The double reference bounds the error; this pins the order of operations.)
#include "kernels/op/order.h"

#include <array>

#include "kernels/op/math.h"
#include "tests/support/kernel_suite.h"
#include "tests/support/ops/attention_op.h"
#include "tests/support/ops/geglu_op.h"
#include "tests/support/ops/logsumexp_op.h"
#include "tests/support/ops/matmul_op.h"
#include "tests/support/ops/rmsnorm_op.h"
#include "tests/support/ops/rope_op.h"

namespace engine::test {
namespace {

// Runs the op on every pool; its results must be `expected`, bit for bit.
template <class Op>
void expect_bits(Op& op, std::span<const float> expected) {
  Bits expected_bits;
  append_bits(expected_bits, expected);
  for (const auto& pool : all_pools()) {
    run(op, *pool, op.n_t());
    EXPECT_EQ(compare_bits(expected_bits, op.bits()), "") << describe(*pool);
  }
}

std::string segment(int n) {
  struct Bracket {
    using Term = std::string;
    std::string operator()(const std::string& a, const std::string& b) { return "(" + a + b + ")"; }
  };
  op::SegmentTree<Bracket> tree;
  for (int i = 0; i < n; ++i) tree.add(i, std::to_string(i));
  return tree.sum(n);
}

TEST(Order, SegmentTree) {
  EXPECT_EQ(segment(1), "0");
  EXPECT_EQ(segment(2), "(01)");
  EXPECT_EQ(segment(3), "((01)2)");
  EXPECT_EQ(segment(4), "((01)(23))");
  EXPECT_EQ(segment(5), "(((01)(23))4)");
  EXPECT_EQ(segment(6), "(((01)(23))(45))");
  EXPECT_EQ(segment(7), "(((01)(23))((45)6))");
  EXPECT_EQ(segment(8), "(((01)(23))((45)(67)))");
}

TEST(Order, HalvingTree) {
  std::array<std::string, 8> v = {"0", "1", "2", "3", "4", "5", "6", "7"};
  EXPECT_EQ(op::halving_tree(v.data(), 8), "04261537");
  EXPECT_EQ(op::halving_tree(v.data(), 1), "04261537");
}

// Sum of n slots by repeated halving.
float halve(std::vector<float> v) {
  while (v.size() > 1) {
    const std::size_t half = v.size() / 2;
    for (std::size_t l = 0; l < half; ++l) v[l] += v[l + half];
    v.resize(half);
  }
  return v[0];
}

// The terms of one segment, as SegmentTree brackets them.
float sum_terms(std::span<const float> t) {
  if (t.size() == 1) return t[0];
  const std::size_t half = t.size() > 4 ? 4 : t.size() > 2 ? 2 : 1;
  return sum_terms(t.first(half)) + sum_terms(t.subspan(half));
}

float sum_segments(std::span<const float> terms) {
  float y = 0;
  for (std::size_t first = 0; first < terms.size(); first += 8)
    y += sum_terms(terms.subspan(first, std::min<std::size_t>(8, terms.size() - first)));
  return y;
}

// Term of block b (32 inputs) of a row.
template <class Block>
float term(const Block* row, const op::QuantizedRows& x, int b) {
  constexpr int kSub = Block::kSubBlock;
  const Block& block = row[b * 32 / Block::kElements];
  const int first = b * 32 % Block::kElements;
  float a = 0, e = 0;
  for (int j = 0; j < 32 / kSub; ++j) {
    std::int32_t products = 0, inputs = 0;
    for (int i = j * kSub; i < (j + 1) * kSub; ++i) {
      const int q = x.q[op::quad_position(b * 32 + i)];
      products += block.quant(first + i) * q;
      inputs += q;
    }
    const float s = static_cast<float>(block.sub_scale(first / kSub + j));
    a = j == 0 ? static_cast<float>(products) * s : std::fma(static_cast<float>(products), s, a);
    if constexpr (Block::kMinimum == gguf::Minimum::subtract) {
      const float n = static_cast<float>(block.sub_min(first / kSub + j));
      e = j == 0 ? static_cast<float>(inputs) * n : std::fma(static_cast<float>(inputs), n, e);
    } else {
      e = static_cast<float>(inputs);
    }
  }
  const float dx = x.scale[b], scale = gguf::f32_from_f16(block.d) * dx;
  if constexpr (Block::kMinimum == gguf::Minimum::subtract)
    return std::fma(a, scale, -(e * (gguf::f32_from_f16(block.dmin) * dx)));
  else if constexpr (Block::kMinimum == gguf::Minimum::add)
    return std::fma(a, scale, e * (gguf::f32_from_f16(block.m) * dx));
  else
    return a * scale;
}

TEST(Order, QuantizedMatmul) {
  for (const gguf::Type type : kQuantizedTypes) {
    const int n_in = gguf::traits(type).block_elements == 256 ? 768 : 672;
    for (const op::Layout layout : kLayouts) {
      if (!cpu::has_layout(type, layout)) continue;
      SCOPED_TRACE(gguf::name(type));
      MatmulOp op({.type = type, .layout = layout, .n_out = 19, .n_in = n_in, .n_t = 2}, 1);
      std::vector<float> expected;
      gguf::visit_block(type, [&]<class Block>() {
        for (int t = 0; t < 2; ++t) {
          for (int o = 0; o < 19; ++o) {
            std::vector<float> terms;
            for (int b = 0; b < n_in / 32; ++b)
              terms.push_back(term(op.weights().blocks<Block>() + o * n_in / Block::kElements,
                                   op.xq().rows(t), b));
            expected.push_back(sum_segments(terms));
          }
        }
      });
      expect_bits(op, expected);
    }
  }
}

TEST(Order, FloatMatmul) {
  for (const gguf::Type type : kFloatTypes) {
    const int n_in = 620;
    MatmulOp op({.type = type, .layout = op::Layout::rows, .n_out = 3, .n_in = n_in, .n_t = 2}, 2);
    std::vector<float> expected;
    for (int t = 0; t < 2; ++t) {
      for (int o = 0; o < 3; ++o) {
        const std::vector<float> w = ref::decoded_row(op.weights().matrix(), o);
        float y = 0;
        for (int first = 0; first < n_in; first += 256) {
          std::vector<float> lanes(32);
          for (int i = first; i < std::min(n_in, first + 256); ++i) {
            float& p = lanes[count(i % 32)];
            p = std::fma(w[count(i)], op.x()[count(t, n_in) + count(i)], p);
          }
          y += halve(lanes);
        }
        expected.push_back(y);
      }
    }
    expect_bits(op, expected);
  }
}

TEST(Order, RmsNorm) {
  const int n_i = 700;
  RmsNormOp op({.n_t = 1, .n_i = n_i}, 3);
  std::vector<float> lanes(128), expected;
  for (int i = 0; i < n_i; ++i) {
    float& p = lanes[count(i % 128)];
    p = std::fma(op.x()[count(i)], op.x()[count(i)], p);
  }
  const float r = 1 / std::sqrt(halve(lanes) / static_cast<float>(n_i) + RmsNormOp::kEps);
  for (int i = 0; i < n_i; ++i) expected.push_back(op.x()[count(i)] * r * op.w()[count(i)]);
  expect_bits(op, expected);
}

TEST(Order, LogSumExp) {
  const int n_vocab = 9001;
  LogSumExpOp op({.n_t = 1, .n_vocab = n_vocab}, 4);
  const float m = *std::max_element(op.logits().begin(), op.logits().end());
  float z = 0;
  for (int first = 0; first < n_vocab; first += 4096) {
    std::vector<float> lanes(128);
    for (int i = first; i < std::min(n_vocab, first + 4096); ++i)
      lanes[count(i % 128)] += op::exp(op.logits()[count(i)] - m);
    z += halve(lanes);
  }
  expect_bits(op, std::array{m + op::log(z)});
}

TEST(Order, Geglu) {
  const int n = 1001;
  GegluOp op({.n_t = 1, .n_i = n}, 5);
  std::vector<float> expected;
  for (int i = 0; i < n; ++i) {
    const float x = op.gate()[count(i)];
    const float u = 0.7978845608f * x * std::fma(0.044715f * x, x, 1.0f);
    expected.push_back(0.5f * x * (1 + op::tanh(u)) * op.up()[count(i)]);
  }
  expect_bits(op, expected);
}

TEST(Order, Rope) {
  const int d = 72, n_pairs = d / 2;
  const float scale = 0.11785113f;
  RopeOp op({.n_t = 1, .n_h = 1, .d = d, .scale = scale}, 6);
  std::vector<float> expected(count(d));
  for (std::size_t i = 0; i < n_pairs; ++i) {
    const float lo = op.x()[i], hi = op.x()[i + n_pairs], c = op.cos()[i], s = op.sin()[i];
    expected[i] = std::fma(lo, c, -(hi * s)) * scale;
    expected[i + n_pairs] = std::fma(hi, c, lo * s) * scale;
  }
  expect_bits(op, expected);
}

// One query head over keys first..last of sequence 0 and KV head 0.
std::vector<float> attend(AttentionOp& op, int first, int last, int d) {
  float running_max = 0, running_sum = 0;
  std::vector<float> out(count(d));
  bool is_first_tile = true;
  for (int tile = first / 64 * 64; tile <= last; tile += 64) {
    const int begin = std::max(first, tile), end = std::min(last + 1, tile + 64);
    std::vector<float> p(64), o(count(d));
    float m = -std::numeric_limits<float>::infinity();
    for (int key = begin; key < end; ++key) {
      float& score = p[count(key - tile)];
      for (int dims = 0; dims < d; dims += 64) {
        float partial = 0;
        for (int i = dims; i < std::min(d, dims + 64); ++i)
          partial = std::fma(op.q()[count(i)], op.pages().k(0, key, 0, i), partial);
        score = dims == 0 ? partial : score + partial;
      }
      m = std::max(m, score);
    }
    for (int key = begin; key < end; ++key) {
      float& weight = p[count(key - tile)];
      weight = op::exp(weight - m);
      for (int i = 0; i < d; ++i)
        o[count(i)] = std::fma(weight, op.pages().v(0, key, 0, i), o[count(i)]);
    }
    const float l = halve(p);
    if (is_first_tile) {
      running_max = m, running_sum = l, out = o;
    } else {
      const float new_max = std::max(running_max, m);
      const float a = op::exp(running_max - new_max), b = op::exp(m - new_max);
      running_sum = std::fma(l, b, running_sum * a);
      for (int i = 0; i < d; ++i) out[count(i)] = std::fma(o[count(i)], b, out[count(i)] * a);
      running_max = new_max;
    }
    is_first_tile = false;
  }
  for (float& v : out) v /= running_sum;
  return out;
}

TEST(Order, Attention) {
  for (const op::KvType type : {op::KvType::f16, op::KvType::f32}) {
    for (const int d : {72, 256}) {
      AttentionOp op({.kv = {1, d, type}, .n_h = 1, .window = 150, .rows = {{300, 310, 0}}}, 7);
      for (float& v : op.q()) v *= 3;
      expect_bits(op, attend(op, 151, 310, d));
    }
  }
}

}  // namespace
}  // namespace engine::test
