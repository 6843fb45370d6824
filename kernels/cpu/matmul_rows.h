// Matmul over weights as they are in the file: the generic kernels. vector: inputs by lanes (float
// weights) or whatever the compiler makes of a block's integer loops; an output row (all columns)
// is one work item.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/cpu/lanes.h"
#include "kernels/op/matmul.h"

namespace engine::cpu {

// One file block's share of 32 inputs, decoded once for all columns.
template <class S>
struct DecodedBlock {
  std::int16_t q[op::kBlock];  // at quad_position
  float s[2], n[2];
  float d, m;  // m: dmin, or the added minimum
};

template <class S, class Block>
DecodedBlock<S> decode_block(const Block& block, int first) {
  DecodedBlock<S> out = {};
  for (int i = 0; i < op::kBlock; ++i)
    out.q[op::quad_position(i)] = static_cast<std::int16_t>(block.quant(first + i));
  for (int j = 0; j < op::kBlock / Block::kSubBlock; ++j) {
    out.s[j] = static_cast<float>(block.sub_scale(first / Block::kSubBlock + j));
    if constexpr (Block::kMinimum == gguf::Minimum::subtract)
      out.n[j] = static_cast<float>(block.sub_min(first / Block::kSubBlock + j));
  }
  out.d = gguf::f32_from_f16(block.d);
  if constexpr (Block::kMinimum == gguf::Minimum::subtract) out.m = gguf::f32_from_f16(block.dmin);
  if constexpr (Block::kMinimum == gguf::Minimum::add) out.m = gguf::f32_from_f16(block.m);
  return out;
}

// The term of op/matmul.h.
template <class S, class Block>
float block_term(const DecodedBlock<S>& w, const std::int16_t* xq, float dx,
                 const std::int32_t* sum16) {
  using Tail = typename S::Tail;
  constexpr int n_sub = op::kBlock / Block::kSubBlock;
  float a = 0.0f, e = 0.0f;
  for (int j = 0; j < n_sub; ++j) {
    std::int32_t sum = 0;
    for (int i = j * Block::kSubBlock; i < (j + 1) * Block::kSubBlock; ++i) sum += w.q[i] * xq[i];
    const std::int32_t x_sum = n_sub == 1 ? sum16[0] + sum16[1] : sum16[j];
    a = j == 0 ? static_cast<float>(sum) * w.s[0] : Tail::fma(static_cast<float>(sum), w.s[j], a);
    e = j == 0 ? static_cast<float>(x_sum) * w.n[0]
               : Tail::fma(static_cast<float>(x_sum), w.n[j], e);
  }
  const float d = w.d * dx;
  if constexpr (Block::kMinimum == gguf::Minimum::subtract)
    return Tail::fma(a, d, -(e * (w.m * dx)));
  if constexpr (Block::kMinimum == gguf::Minimum::add)
    return Tail::fma(a, d, static_cast<float>(sum16[0] + sum16[1]) * (w.m * dx));
  return a * d;
}

// Columns t0 .. t0 + n_columns - 1 of output row o.
template <class S, class Block, int kMaxColumns>
void quantized_row(const op::MatmulArgs& a, int o, int t0, int n_columns) {
  const int n_blocks = a.w.n_in / op::kBlock;
  const auto* row = reinterpret_cast<const Block*>(a.w.data) +
                    static_cast<std::ptrdiff_t>(o) * (a.w.n_in / Block::kElements);
  float y[kMaxColumns] = {};
  for (int b0 = 0; b0 < n_blocks; b0 += op::kSegmentBlocks) {
    const int count = std::min(op::kSegmentBlocks, n_blocks - b0);
    TermTree<typename S::Tail> terms[kMaxColumns];
    for (int b = 0; b < count; ++b) {
      const int first = (b0 + b) * op::kBlock;
      const DecodedBlock<S> w =
          decode_block<S>(row[first / Block::kElements], first % Block::kElements);
      for (int c = 0; c < n_columns; ++c) {
        const std::ptrdiff_t at = static_cast<std::ptrdiff_t>(t0 + c) * n_blocks + b0 + b;
        terms[c].add(b, block_term<S, Block>(w, a.xq.q + at * op::kBlock, a.xq.scale[at],
                                             a.xq.sum16 + 2 * at));
      }
    }
    for (int c = 0; c < n_columns; ++c) y[c] = y[c] + terms[c].sum(count);
  }
  for (int c = 0; c < n_columns; ++c)
    a.y[static_cast<std::ptrdiff_t>(t0 + c) * a.w.n_out + o] = y[c];
}

struct F32Weights {
  using Element = float;
  template <class S>
  static typename S::F load(const Element* p) {
    return S::load(p);
  }
};
struct F16Weights {
  using Element = std::uint16_t;
  template <class S>
  static typename S::F load(const Element* p) {
    return S::load_f16(p);
  }
};
struct BF16Weights {
  using Element = std::uint16_t;
  template <class S>
  static typename S::F load(const Element* p) {
    return S::load_bf16(p);
  }
};

template <class S, class Weights>
float float_dot(const typename Weights::Element* w, const float* x, int n) {
  float y = 0.0f;
  for (int first = 0; first < n; first += op::kSegment) {
    alignas(64) float lanes[op::kDotLanes];
    sum_in_lanes<S, op::kDotLanes>(
        std::min(op::kSegment, n - first), lanes, [&]<class T>(typename T::F p, int i) {
          return T::fma(Weights::template load<T>(w + first + i), T::load(x + first + i), p);
        });
    y = y + halving_tree<S>(lanes, op::kDotLanes);
  }
  return y;
}

template <class S, class Weights>
void float_rows(const op::MatmulArgs& a, int begin, int end) {
  for (int o = begin; o < end; ++o) {
    const auto* row = reinterpret_cast<const typename Weights::Element*>(a.w.data) +
                      static_cast<std::ptrdiff_t>(o) * a.w.n_in;
    for (std::ptrdiff_t t = 0; t < a.n_t; ++t)
      a.y[t * a.w.n_out + o] = float_dot<S, Weights>(row, a.x + t * a.w.n_in, a.w.n_in);
  }
}

template <class S>
void matmul_rows(const op::MatmulArgs& a, int begin, int end) {
  switch (a.w.type) {
    case gguf::Type::f32:
      return float_rows<S, F32Weights>(a, begin, end);
    case gguf::Type::f16:
      return float_rows<S, F16Weights>(a, begin, end);
    case gguf::Type::bf16:
      return float_rows<S, BF16Weights>(a, begin, end);
    default:
      break;
  }
  constexpr int kMaxColumns = 8;
  gguf::visit_block(a.w.type, [&]<class Block>() {
    for (int o = begin; o < end; ++o)
      for (int t = 0; t < a.n_t; t += kMaxColumns)
        quantized_row<S, Block, kMaxColumns>(a, o, t, std::min(kMaxColumns, a.n_t - t));
  });
}

}  // namespace engine::cpu
