// Matmul over planes for many columns (prompts, large batches): a segment of a group's weights is
// expanded once to 16 bits and then meets all columns of a chunk. vector: output rows by lanes; one
// work item: a group of 16 rows, all columns.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/cpu/block_term.h"

namespace engine::cpu {

// Columns whose activations stay in the second-level cache while all groups of a part meet them.
inline constexpr int kChunkColumns = 128;

// Blocks b0 .. b0 + count - 1 of one or more groups, signed and widened.
template <class S, int kGroups>
struct ExpandedSegment {
  static constexpr int kGroupVectors = kGroup / S::kLanes, kVectors = kGroups * kGroupVectors;
  static constexpr int kPairs = op::kBlock / 2;
  int b0, count;
  // [block][pair of inputs][vector]: in quad_position order, for the activations' pair of that index
  typename S::I weights[op::kSegmentBlocks][kPairs][kVectors];
  BlockScales<S> scales[op::kSegmentBlocks][kVectors];
};

// How far ahead of the weights in work their successors are asked of memory: about what arrives in
// the time a request takes.
inline constexpr int kAheadBytes = 8192;

template <class Format>
[[gnu::always_inline]] inline void prefetch_ahead(const Group<Format>& group, int b) {
  constexpr int kBytes = Format::kQuantBytes + Format::kScaleBytes;
  for (int i = 0; i < kBytes; i += 64)
    __builtin_prefetch(group.quants + b * kBytes + kAheadBytes + i);
  for (int i = 0; i < Format::kLowBytes; i += 64)
    __builtin_prefetch(group.block_low(b) + kAheadBytes + i);
}

// Fills the vectors of group `index` of the segment's groups.
template <class S, class Format, int kGroups>
void expand(const Group<Format>& group, int index, ExpandedSegment<S, kGroups>& out) {
  using I = typename S::I;
  const I offset = S::seti(Format::kOffset | Format::kOffset << 16);
  for (int b = 0; b < out.count; ++b)
    for (int v = 0; v < out.kGroupVectors; ++v) {
      const int to = index * out.kGroupVectors + v;
#pragma GCC unroll 8
      for (int k = 0; k < 8; ++k) {
        const I word = quad_word<S, Format>(group, out.b0 + b, k, v);
        out.weights[b][2 * k][to] = S::subi16(S::andi(word, S::seti(0x00FF00FF)), offset);
        out.weights[b][2 * k + 1][to] = S::subi16(S::template shr16<8>(word), offset);
      }
      if (v == 0) prefetch_ahead(group, out.b0 + b);
      out.scales[b][to] = load_scales<S, Format>(group, out.b0 + b, v);
    }
}

// y[c][row] += the segment's sums for columns t0 .. t0 + kColumns - 1.
template <class S, class Format, int kColumns, int kGroups>
void add_segment(const op::MatmulArgs& a, const ExpandedSegment<S, kGroups>& w, int t0,
                 float (*y)[kGroups * kGroup]) {
  constexpr int kVectors = w.kVectors;
  constexpr int kSubs = kSubBlocks<Format>, kSubPairs = w.kPairs / kSubs;
  using F = typename S::F;
  using I = typename S::I;
  F t[op::kSegmentBlocks][kColumns][kVectors];
  for (int b = 0; b < w.count; ++b) {
    ColumnBlock x[kColumns];
    for (int c = 0; c < kColumns; ++c) x[c] = column_block(a, t0 + c, w.b0 + b);
    I sums[kColumns][kVectors][kSubs];
#pragma GCC unroll 2
    for (int j = 0; j < kSubs; ++j) {
      I acc[kColumns][kVectors];
      for (auto& column : acc)
        for (I& sum : column) sum = S::seti(0);
#pragma GCC unroll 16
      for (int p = j * kSubPairs; p < (j + 1) * kSubPairs; ++p)
#pragma GCC unroll 8
        for (int c = 0; c < kColumns; ++c) {
          const I pair = S::seti(x[c].pair(p));
#pragma GCC unroll 2
          for (int v = 0; v < kVectors; ++v)
            acc[c][v] = S::dot2(acc[c][v], w.weights[b][p][v], pair);
        }
      for (int c = 0; c < kColumns; ++c)
        for (int v = 0; v < kVectors; ++v) sums[c][v][j] = acc[c][v];
    }
    for (int c = 0; c < kColumns; ++c)
      for (int v = 0; v < kVectors; ++v)
        t[b][c][v] = block_term<S, Format>(sums[c][v], w.scales[b][v], x[c]);
  }
  for (int c = 0; c < kColumns; ++c)
    for (int v = 0; v < kVectors; ++v) {
      float* at = y[c] + S::kLanes * v;
      S::store(at, S::add(S::load(at), segment_sum<S>(&t[0][c][v], kColumns * kVectors, w.count)));
    }
}

// Columns t0 .. t0 + n - 1 of kGroups groups, n <= kChunkColumns.
template <class S, class Format, int kGroups>
void groups_chunk(const op::MatmulArgs& a, int first_group, int t0, int n) {
  const int n_blocks = a.w.n_in / op::kBlock;
  alignas(64) float y[kChunkColumns][kGroups * kGroup];
  std::fill_n(&y[0][0], n * kGroups * kGroup, 0.0f);
  ExpandedSegment<S, kGroups> w;
  for (w.b0 = 0; w.b0 < n_blocks; w.b0 += op::kSegmentBlocks) {
    w.count = std::min(op::kSegmentBlocks, n_blocks - w.b0);
    for (int g = 0; g < kGroups; ++g) expand(Group<Format>(a.w, first_group + g), g, w);
    for_columns<S>(n, [&]<int kColumns>(int c) {
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
