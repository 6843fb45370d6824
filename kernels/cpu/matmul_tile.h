// Matmul over planes for many columns (prompts, large batches): a segment of a few groups' weights is
// expanded once to 16 bits and then meets all columns of a chunk. vector: output rows by lanes; one
// work item: a group of 16 rows, all columns.
//
// Where S::kProductsOfSums, integer sums are formed as S. Winograd proposed ("A new algorithm for
// inner products", IEEE Transactions on Computers C-17, 1968), with one product for two weights:
//   w0*x0 + w1*x1 = (w1+x0)*(w0+x1) - x0*x1 - w0*w1
// The last two are summed beforehand, once a row and once a column. Sums wrap modulo 2^32, which a
// result that fits 32 bits does not mind; w + x fits 16 bits, as |x| <= 32639 and -128 <= w < 128.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/cpu/block_term.h"

namespace engine::cpu {

// Columns whose activations stay in the second-level cache while all groups of a part meet them.
inline constexpr int kChunkColumns = 128;

// Blocks b0 .. b0 + count - 1 of kGroups groups, signed and widened.
template <class S, class Format, int kGroups>
struct ExpandedSegment {
  static constexpr int kGroupVectors = kGroup / S::kLanes, kVectors = kGroups * kGroupVectors;
  static constexpr int kPairs = op::kBlock / 2;
  static constexpr int kSubs = kSubBlocks<Format>, kSubPairs = kPairs / kSubs;
  int b0, count;
  // Pairs of weights as words, in the order of the activations' pairs.
  typename S::I pairs[op::kSegmentBlocks][kPairs][kVectors];
  // -(w0*w1 + w2*w3 + ...) of each sub-block, if the class multiplies sums.
  typename S::I minus_products[op::kSegmentBlocks][kSubs][kVectors];
  BlockScales<S, Format> scales[op::kSegmentBlocks][kVectors];
};

// Expands vector v of the group into vector `to` of the segment.
template <class S, class Format, int kGroups>
[[gnu::always_inline]] inline void expand_block(const Group<Format>& group, int b, int v, int to,
                                                ExpandedSegment<S, Format, kGroups>& out) {
  using I = typename S::I;
  constexpr int n_subs = ExpandedSegment<S, Format, kGroups>::kSubs;
  const I offset = S::seti(Format::kOffset | Format::kOffset << 16);
  I products[2] = {S::seti(0), S::seti(0)};  // of each half
  const BlockQuads<S, Format> quads(group, out.b0 + b, v);
#pragma GCC unroll 8
  for (int k = 0; k < 8; ++k) {
    const I word = quads.word(k);
    const I even = S::subi16(S::andi(word, S::seti(0x00FF00FF)), offset);
    const I odd = S::subi16(S::template shr16<8>(word), offset);
    out.pairs[b][2 * k][to] = even;
    out.pairs[b][2 * k + 1][to] = odd;
    if constexpr (S::kProductsOfSums) products[k / 4] = S::dot2(products[k / 4], even, odd);
  }
  if constexpr (n_subs == 1) products[0] = S::addi(products[0], products[1]);
  if constexpr (S::kProductsOfSums)
    for (int j = 0; j < n_subs; ++j)
      out.minus_products[b][j][to] = S::subi(S::seti(0), products[j]);
  out.scales[b][to] = load_scales<S, Format>(group, out.b0 + b, v);
}

// -(x0*x1 + x2*x3 + ...) of sub-block j of a block that has kSubs.
template <int kSubs>
[[gnu::always_inline]] inline std::int32_t minus_column_products(const ColumnBlock& x, int j) {
  std::uint32_t products = static_cast<std::uint32_t>(x.product16[j]);
  if (kSubs == 1) products += static_cast<std::uint32_t>(x.product16[1]);
  return static_cast<std::int32_t>(0u - products);
}

// Integer sums of sub-block j of block b: acc[c][v] = sum w * x.
template <class S, class Format, int kColumns, int kGroups, int kVectors>
[[gnu::always_inline]] inline void tile_sums(const ExpandedSegment<S, Format, kGroups>& w, int b,
                                             int j, const ColumnBlock (&x)[kColumns],
                                             typename S::I (&acc)[kColumns][kVectors]) {
  using I = typename S::I;
  for (int c = 0; c < kColumns; ++c) {
    const I minus = S::seti(minus_column_products<kSubBlocks<Format>>(x[c], j));
    for (int v = 0; v < kVectors; ++v)
      acc[c][v] = S::kProductsOfSums ? S::addi(w.minus_products[b][j][v], minus) : S::seti(0);
  }
#pragma GCC unroll 16
  for (int p = j * w.kSubPairs; p < (j + 1) * w.kSubPairs; p += 2)
#pragma GCC unroll 8
    for (int c = 0; c < kColumns; ++c) {
      const I even = S::seti(x[c].pair(p)), odd = S::seti(x[c].pair(p + 1));
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        const I w_even = w.pairs[b][p][v], w_odd = w.pairs[b][p + 1][v];
        if constexpr (S::kProductsOfSums) {
          acc[c][v] = S::dot2(acc[c][v], S::addi16(w_odd, even), S::addi16(w_even, odd));
        } else {
          acc[c][v] = S::dot2(acc[c][v], w_even, even);
          acc[c][v] = S::dot2(acc[c][v], w_odd, odd);
        }
      }
    }
}

// y[c][row] += the segment's sums for columns t0 .. t0 + kColumns - 1.
template <class S, class Format, int kColumns, int kGroups>
void add_segment(const op::MatmulArgs& a, const ExpandedSegment<S, Format, kGroups>& w, int t0,
                 float (*y)[kGroups * kGroup]) {
  using Segment = ExpandedSegment<S, Format, kGroups>;
  constexpr int kVectors = Segment::kVectors, kSubs = Segment::kSubs;
  TermTree<S> terms[kColumns][kVectors];
  for (int b = 0; b < w.count; ++b) {
    ColumnBlock x[kColumns];
    for (int c = 0; c < kColumns; ++c) x[c] = column_block(a, t0 + c, w.b0 + b);
    typename S::I sums[kSubs][kColumns][kVectors];
#pragma GCC unroll 2
    for (int j = 0; j < kSubs; ++j) tile_sums(w, b, j, x, sums[j]);
    for (int c = 0; c < kColumns; ++c)
      for (int v = 0; v < kVectors; ++v)
        terms[c][v].add(
            b, block_term<S, Format>(sums[0][c][v], sums[kSubs - 1][c][v], w.scales[b][v], x[c]));
  }
  for (int c = 0; c < kColumns; ++c)
    for (int v = 0; v < kVectors; ++v) {
      float* at = y[c] + S::kLanes * v;
      S::store(at, S::add(S::load(at), terms[c][v].sum(w.count)));
    }
}

// Asks memory for block b of kGroups groups, with b beyond a group's last block for one of the next
// groups, to come into the second-level cache: the first is full with the tile.
template <class Format, int kGroups>
[[gnu::always_inline]] inline void prefetch_groups(const op::Matrix& w, int first_group, int b) {
  const int n_blocks = w.n_in / op::kBlock;
  const bool next = b >= n_blocks;
  const std::size_t group_bytes = Group<Format>::bytes(n_blocks), groups_ahead = next ? kGroups : 0;
  if (next) b -= n_blocks;
  for (int g = 0; g < kGroups; ++g) {
    const Group<Format> group(w, first_group + g);
    prefetch<kSecondLevel>(group.block_quants(b), groups_ahead * group_bytes, Format::kQuantBytes);
    prefetch<kSecondLevel>(group.block_scales(b), groups_ahead * group_bytes, Format::kScaleBytes);
  }
}

// Columns t0 .. t0 + n - 1 of kGroups groups, n <= kChunkColumns.
template <class S, class Format, int kGroups>
void groups_chunk(const op::MatmulArgs& a, int first_group, int t0, int n) {
  const int n_blocks = a.w.n_in / op::kBlock;
  alignas(64) float y[kChunkColumns][kGroups * kGroup];
  std::fill_n(&y[0][0], n * kGroups * kGroup, 0.0f);
  const std::size_t low_ahead =
      static_cast<std::size_t>(kGroups) * static_cast<std::size_t>(n_blocks) * Format::kLowBytes;
  ExpandedSegment<S, Format, kGroups> w;
  for (w.b0 = 0; w.b0 < n_blocks; w.b0 += op::kSegmentBlocks) {
    w.count = std::min(op::kSegmentBlocks, n_blocks - w.b0);
    for (int g = 0; g < kGroups; ++g) {
      const Group<Format> group(a.w, first_group + g);
      for (int b = 0; b < w.count; ++b) {
        // A group's first block needs nearly all lines of nibbles that lie row by row.
        prefetch<kFirstLevel>(group.low,
                              low_ahead + static_cast<std::size_t>(w.b0 + b) * Format::kLowBytes,
                              Format::kLowBytes);
        for (int v = 0; v < w.kGroupVectors; ++v)
          expand_block(group, b, v, g * w.kGroupVectors + v, w);
      }
    }
    // The next segment comes from memory, spread over the time that the columns meet this one.
    for_columns<S>(n, [&]<int kColumns>(int c) {
      for (int b = op::kSegmentBlocks * c / n; b < op::kSegmentBlocks * (c + kColumns) / n; ++b)
        prefetch_groups<Format, kGroups>(a.w, first_group, w.b0 + w.count + b);
      add_segment<S, Format, kColumns, kGroups>(a, w, t0 + c, y + c);
    });
  }
  const int first_row = first_group * kGroup;
  const int n_rows = std::min(kGroups * kGroup, a.w.n_out - first_row);
  for (int c = 0; c < n; ++c)
    std::copy_n(y[c], n_rows, a.y + static_cast<std::ptrdiff_t>(t0 + c) * a.w.n_out + first_row);
}

template <class S, class Format>
void tile_groups(const op::MatmulArgs& a, int begin, int end) {
  for (int t0 = 0; t0 < a.n_t; t0 += kChunkColumns) {
    const int n = std::min(kChunkColumns, a.n_t - t0);
    int group = begin;
    if constexpr (S::kTileGroups > 1)
      for (; group + S::kTileGroups <= end; group += S::kTileGroups)
        groups_chunk<S, Format, S::kTileGroups>(a, group, t0, n);
    for (; group < end; ++group) groups_chunk<S, Format, 1>(a, group, t0, n);
  }
}

}  // namespace engine::cpu
