// Matmul over planes. vector: output rows by lanes; one work item: a group of 16 rows, all columns.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/cpu/lanes.h"
#include "kernels/cpu/planes.h"
#include "kernels/op/matmul.h"

namespace engine::cpu {

// The four unsigned weights of quad k of a block, as bytes, for the rows of vector v of the group.
template <class S, class Format>
[[gnu::always_inline]] inline typename S::I quad_word(const std::uint8_t* block, int k, int v) {
  const int at = 4 * S::kLanes * v;
  if constexpr (std::is_same_v<Format, Q8_0Planes>) {
    return S::loadi(block + 64 * k + at);
  } else {
    const typename S::I pair = S::loadi(block + 64 * (k / 2) + at);
    const typename S::I low =
        S::andi(k % 2 == 0 ? pair : S::template shr<4>(pair), S::seti(0x0F0F0F0F));
    if constexpr (std::is_same_v<Format, Q4_KPlanes>) {
      return low;
    } else {
      constexpr bool one_bit = std::is_same_v<Format, Q5_0Planes>;
      const typename S::I bits =
          S::loadi(block + Format::kBits + (one_bit ? 0 : 64 * (k / 4)) + at);
      const typename S::I mask = S::seti(one_bit ? 0x10101010 : 0x30303030);
      // The bits stand at this one of their byte and belong at bit 4.
      const int shift = one_bit ? k : 2 * (k % 4);
      typename S::I high;
      switch (shift) {
        case 0:
          high = S::template shl<4>(bits);
          break;
        case 1:
          high = S::template shl<3>(bits);
          break;
        case 2:
          high = S::template shl<2>(bits);
          break;
        case 3:
          high = S::template shl<1>(bits);
          break;
        case 4:
          high = bits;
          break;
        case 5:
          high = S::template shr<1>(bits);
          break;
        case 6:
          high = S::template shr<2>(bits);
          break;
        default:
          high = S::template shr<3>(bits);
          break;
      }
      return S::ori(low, S::andi(high, mask));
    }
  }
}

// Scales of one block for the rows of one vector.
template <class S>
struct BlockScales {
  typename S::F d{}, dmin{}, s0{}, s1{}, n{};  // those a format lacks stay unused
};

template <class S, class Format>
BlockScales<S> load_scales(const std::uint8_t* head, const std::uint8_t* block, int v) {
  const auto half = [&](const std::uint8_t* at) {
    return S::load_f16(reinterpret_cast<const std::uint16_t*>(at) + S::kLanes * v);
  };
  const int r = S::kLanes * v;
  if constexpr (std::is_same_v<Format, Q4_KPlanes>)
    return {.d = half(head + Format::kHeadD),
            .dmin = half(head + Format::kHeadDmin),
            .s0 = S::to_float(S::load_u8(block + Format::kScales + r)),
            .n = S::to_float(S::load_u8(block + Format::kMinima + r))};
  else if constexpr (std::is_same_v<Format, Q6_KPlanes>)
    return {.d = half(head + Format::kHeadD),
            .s0 = S::to_float(S::load_i8(block + Format::kScales + r)),
            .s1 = S::to_float(S::load_i8(block + Format::kScales + 16 + r))};
  else
    return {.d = half(block + Format::kD)};
}

// The quantised activations of a few columns at one block.
struct ColumnBlock {
  const std::int16_t* q;
  float scale;
  const std::int32_t* sum16;
};

// A pair of 16-bit activations as one 32-bit word.
inline std::int32_t pair_at(const std::int16_t* q, int pair) {
  std::int32_t word;
  std::memcpy(&word, q + 2 * pair, sizeof word);
  return word;
}

// Integer sums of quads first..last-1 for kColumns columns: acc[c][v] = sum u * x - offset * sum x.
template <class S, class Format, int kColumns, int kVectors>
[[gnu::always_inline]] inline void integer_sums(const std::uint8_t* block,
                                                const ColumnBlock (&x)[kColumns], int first,
                                                int last,
                                                typename S::I (&acc)[kColumns][kVectors]) {
  for (int c = 0; c < kColumns; ++c) {
    std::int32_t sum = 0;
    for (int half = first / 4; half < last / 4; ++half) sum += x[c].sum16[half];
    for (int v = 0; v < kVectors; ++v) acc[c][v] = S::seti(-Format::kOffset * sum);
  }
#pragma GCC unroll 8
  for (int k = first; k < last; ++k)
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      const typename S::I word = quad_word<S, Format>(block, k, v);
      const typename S::I even = S::andi(word, S::seti(0x00FF00FF));
      const typename S::I odd = S::andi(S::template shr<8>(word), S::seti(0x00FF00FF));
#pragma GCC unroll 4
      for (int c = 0; c < kColumns; ++c) {
        acc[c][v] = S::addi(acc[c][v], S::madd(even, S::seti(pair_at(x[c].q, 2 * k))));
        acc[c][v] = S::addi(acc[c][v], S::madd(odd, S::seti(pair_at(x[c].q, 2 * k + 1))));
      }
    }
}

// The terms of one block (contract of op/matmul.h) for kColumns columns.
template <class S, class Format, int kColumns, int kVectors>
[[gnu::always_inline]] inline void block_terms(const std::uint8_t* head, const std::uint8_t* block,
                                               const ColumnBlock (&x)[kColumns],
                                               typename S::F (&t)[kColumns][kVectors]) {
  using F = typename S::F;
  using Block = typename Format::Block;
  constexpr bool two_halves = Block::kSubBlock == 16;
  typename S::I first[kColumns][kVectors], second[kColumns][kVectors];
  integer_sums<S, Format, kColumns, kVectors>(block, x, 0, two_halves ? 4 : 8, first);
  if constexpr (two_halves) integer_sums<S, Format, kColumns, kVectors>(block, x, 4, 8, second);
  for (int v = 0; v < kVectors; ++v) {
    const BlockScales<S> scales = load_scales<S, Format>(head, block, v);
    for (int c = 0; c < kColumns; ++c) {
      F a = S::to_float(first[c][v]);
      if constexpr (Format::kSuperBlocks > 1) a = S::mul(a, scales.s0);
      if constexpr (two_halves) a = S::fma(S::to_float(second[c][v]), scales.s1, a);
      const F dx = S::set(x[c].scale), product = S::mul(scales.d, dx);
      if constexpr (Block::kMinimum == gguf::Minimum::subtract) {
        const F e = S::mul(S::set(static_cast<float>(x[c].sum16[0] + x[c].sum16[1])), scales.n);
        t[c][v] = S::fma(a, product, S::neg(S::mul(e, S::mul(scales.dmin, dx))));
      } else {
        t[c][v] = S::mul(a, product);
      }
    }
  }
}

// Columns t0 .. t0 + kColumns - 1 of one group.
template <class S, class Format, int kColumns>
void group_columns(const op::MatmulArgs& a, int group, int t0) {
  constexpr int kVectors = kGroup / S::kLanes;
  using F = typename S::F;
  const int n_blocks = a.w.n_in / op::kBlock;
  const auto* base = reinterpret_cast<const std::uint8_t*>(a.w.data) +
                     static_cast<std::size_t>(group) * group_bytes<Format>(n_blocks);
  F y[kColumns][kVectors];
  for (auto& column : y)
    for (F& value : column) value = S::set(0.0f);
  for (int b0 = 0; b0 < n_blocks; b0 += op::kSegmentBlocks) {
    const int count = std::min(op::kSegmentBlocks, n_blocks - b0);
    F t[op::kSegmentBlocks][kColumns][kVectors];
    for (int b = 0; b < count; ++b) {
      ColumnBlock x[kColumns];
      for (int c = 0; c < kColumns; ++c) {
        const std::ptrdiff_t at = static_cast<std::ptrdiff_t>(t0 + c) * n_blocks + b0 + b;
        x[c] = {a.xq.q + at * op::kBlock, a.xq.scale[at], a.xq.sum16 + 2 * at};
      }
      block_terms<S, Format, kColumns, kVectors>(base + head_offset<Format>(b0 + b),
                                                 base + block_offset<Format>(b0 + b), x, t[b]);
    }
    for (int c = 0; c < kColumns; ++c)
      for (int v = 0; v < kVectors; ++v) {
        F terms[op::kSegmentBlocks];
        for (int b = 0; b < count; ++b) terms[b] = t[b][c][v];
        y[c][v] =
            S::add(y[c][v], op::segment_tree(terms, count, [](F p, F q) { return S::add(p, q); }));
      }
  }
  const int n_rows = std::min(kGroup, a.w.n_out - group * kGroup);
  for (int c = 0; c < kColumns; ++c) {
    float rows[kGroup];
    for (int v = 0; v < kVectors; ++v) S::store(rows + S::kLanes * v, y[c][v]);
    float* to = a.y + static_cast<std::ptrdiff_t>(t0 + c) * a.w.n_out + group * kGroup;
    std::copy_n(rows, n_rows, to);
  }
}

template <class S, class Format>
void planes_groups(const op::MatmulArgs& a, int begin, int end) {
  for (int group = begin; group < end; ++group) {
    int t = 0;
    for (; t + 4 <= a.n_t; t += 4) group_columns<S, Format, 4>(a, group, t);
    if (t + 2 <= a.n_t) group_columns<S, Format, 2>(a, group, t), t += 2;
    if (t < a.n_t) group_columns<S, Format, 1>(a, group, t);
  }
}

}  // namespace engine::cpu
