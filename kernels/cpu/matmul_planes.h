// Matmul over planes for a few columns (decode): weights go from memory through registers once per
// kTileColumns columns. vector: output rows by lanes; one work item: a group of 16 rows, all
// columns.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "kernels/cpu/block_term.h"
#include "kernels/cpu/matmul_tile.h"

namespace engine::cpu {

// How far ahead of the block in work its successors are asked of memory: about what arrives in the
// time a request takes.
inline constexpr std::size_t kAheadBytes = 8192;

// Taken as one stream, the memory of a group is asked for at an even pace, so block b's turn is only
// about the place of its successors. The scales of a long group lie too far behind its quants to be
// met in time: those of the next group are asked for.
template <class Format>
[[gnu::always_inline]] inline void prefetch_group(const Group<Format>& group, int n_blocks, int b) {
  constexpr std::size_t kBytes = Format::kQuantBytes + Format::kScaleBytes;
  prefetch<kFirstLevel>(group.quants, static_cast<std::size_t>(b) * kBytes + kAheadBytes, kBytes);
  if (static_cast<std::size_t>(n_blocks) * kBytes < 2 * kAheadBytes) return;
  const std::size_t group_bytes = Group<Format>::bytes(n_blocks);
  prefetch<kFirstLevel>(group.block_scales(b), group_bytes, Format::kScaleBytes);
  prefetch<kFirstLevel>(group.head(b), group_bytes, Format::kHeadBytes);
}

// The same of low nibbles that lie apart.
template <class Format>
[[gnu::always_inline]] inline void prefetch_low(const Group<Format>& group, int b) {
  prefetch<kFirstLevel>(group.low, static_cast<std::size_t>(b) * Format::kLowBytes + kAheadBytes,
                        Format::kLowBytes);
}

template <class Format>
[[gnu::always_inline]] inline void prefetch_ahead(const Group<Format>& group, int n_blocks, int b) {
  prefetch_low(group, b);
  prefetch_group(group, n_blocks, b);
}

// Vectors of rows whose sums are formed together, so that they share what is loaded of a column; with several
// columns, the sums would not fit the registers.
template <class S, int kColumns>
inline constexpr int kVectorsAtOnce = kColumns == 1 ? std::min(2, kGroup / S::kLanes) : 1;

// Integer sums of quads first..last-1 of a block, for the rows of n vectors: sums[i][c] = sum u * x - offset *
// sum x.
template <class S, class Format, int kColumns, std::size_t n>
[[gnu::always_inline]] inline void integer_sums(const std::array<BlockQuads<S, Format>, n>& w,
                                                const ColumnBlock (&x)[kColumns], int first,
                                                int last, typename S::I (&sums)[n][kColumns]) {
  using I = typename S::I;
  const I low_bytes = S::seti(0x00FF00FF);
  I odd_sums[n][kColumns];  // chains of their own, so that additions overlap
  for (int c = 0; c < kColumns; ++c) {
    std::int32_t sum = 0;
    for (int half = first / 4; half < last / 4; ++half) sum += x[c].sum16[half];
    for (std::size_t i = 0; i < n; ++i) {
      sums[i][c] = S::seti(-Format::kOffset * sum);
      odd_sums[i][c] = S::seti(0);
    }
  }
#pragma GCC unroll 8
  for (int k = first; k < last; ++k) {
    I even[n], odd[n];
    for (std::size_t i = 0; i < n; ++i) {
      const I word = w[i].word(k);
      even[i] = S::andi(word, low_bytes);
      odd[i] = S::template shr16<8>(word);
    }
#pragma GCC unroll 8
    for (int c = 0; c < kColumns; ++c) {
      const I x_even = S::seti(x[c].pair(2 * k)), x_odd = S::seti(x[c].pair(2 * k + 1));
      for (std::size_t i = 0; i < n; ++i) {
        sums[i][c] = S::dot2(sums[i][c], even[i], x_even);
        odd_sums[i][c] = S::dot2(odd_sums[i][c], odd[i], x_odd);
      }
    }
  }
  for (std::size_t i = 0; i < n; ++i)
    for (int c = 0; c < kColumns; ++c) sums[i][c] = S::addi(sums[i][c], odd_sums[i][c]);
}

// The terms of block b for kColumns columns and the rows of kVectorsAtOnce vectors from v on.
template <class S, class Format, int kColumns>
[[gnu::always_inline]] inline void block_terms(const Group<Format>& group, int b, int v,
                                               const ColumnBlock (&x)[kColumns],
                                               typename S::F (&t)[kGroup / S::kLanes][kColumns]) {
  constexpr int kSubs = kSubBlocks<Format>;
  constexpr std::size_t n = kVectorsAtOnce<S, kColumns>;
  typename S::I sums[kSubs][n][kColumns];
  const auto quads = [&]<std::size_t... i>(std::index_sequence<i...>) {
    return std::array{BlockQuads<S, Format>(group, b, v + static_cast<int>(i))...};
  }
  (std::make_index_sequence<n>());
#pragma GCC unroll 2
  for (int j = 0; j < kSubs; ++j)
    integer_sums<S, Format, kColumns>(quads, x, 8 / kSubs * j, 8 / kSubs * (j + 1), sums[j]);
  for (std::size_t i = 0; i < n; ++i) {
    const int vector = v + static_cast<int>(i);
    const BlockScales<S, Format> scales = load_scales<S, Format>(group, b, vector);
    for (int c = 0; c < kColumns; ++c)
      t[vector][c] = block_term<S, Format>(sums[0][i][c], sums[kSubs - 1][i][c], scales, x[c]);
  }
}

// Columns t0 .. t0 + kColumns - 1 of one group.
template <class S, class Format, int kColumns>
void group_columns(const op::MatmulArgs& a, int group_index, int t0) {
  constexpr int kVectors = kGroup / S::kLanes;
  using F = typename S::F;
  const Group<Format> group(a.w, group_index);
  const int n_blocks = a.w.n_in / op::kBlock;
  F y[kVectors][kColumns];
  for (auto& column : y)
    for (F& value : column) value = S::set(0.0f);
  for (int b0 = 0; b0 < n_blocks; b0 += op::kSegmentBlocks) {
    const int count = std::min(op::kSegmentBlocks, n_blocks - b0);
    F t[op::kSegmentBlocks][kVectors][kColumns];
    for (int b = 0; b < count; ++b) {
      ColumnBlock x[kColumns];
      for (int c = 0; c < kColumns; ++c) x[c] = column_block(a, t0 + c, b0 + b);
      prefetch_ahead(group, n_blocks, b0 + b);
      for (int v = 0; v < kVectors; v += kVectorsAtOnce<S, kColumns>)
        block_terms<S, Format, kColumns>(group, b0 + b, v, x, t[b]);
    }
    for (int v = 0; v < kVectors; ++v)
      for (int c = 0; c < kColumns; ++c)
        y[v][c] = S::add(y[v][c], segment_sum<S>(&t[0][v][c], kVectors * kColumns, count));
  }
  const int n_rows = std::min(kGroup, a.w.n_out - group_index * kGroup);
  for (int c = 0; c < kColumns; ++c) {
    float rows[kGroup];
    for (int v = 0; v < kVectors; ++v) S::store(rows + S::kLanes * v, y[v][c]);
    std::copy_n(rows, n_rows,
                a.y + static_cast<std::ptrdiff_t>(t0 + c) * a.w.n_out + group_index * kGroup);
  }
}

template <class S, class Format>
void planes_groups(const op::MatmulArgs& a, int begin, int end) {
  if (a.n_t > S::kDirectColumns) return tile_groups<S, Format>(a, begin, end);
  for (int group = begin; group < end; ++group)
    for_columns<S>(a.n_t,
                   [&]<int kColumns>(int t) { group_columns<S, Format, kColumns>(a, group, t); });
}

}  // namespace engine::cpu
