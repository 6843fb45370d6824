// Matmul over planes for a few columns (decode): weights go from memory through registers once per
// kTileColumns columns. vector: output rows by lanes; one work item: a group of 16 rows, all
// columns.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

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
[[gnu::always_inline]] inline void prefetch_groups(const Group<Format>& group, int n_blocks,
                                                   int b) {
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
  prefetch_groups(group, n_blocks, b);
}

// Integer sums of quads first..last-1 of a block: sums[c] = sum u * x - offset * sum x.
template <class S, class Format, int kColumns>
[[gnu::always_inline]] inline void integer_sums(const BlockQuads<S, Format>& w,
                                                const ColumnBlock (&x)[kColumns], int first,
                                                int last, typename S::I (&sums)[kColumns]) {
  using I = typename S::I;
  const I low_bytes = S::seti(0x00FF00FF);
  I odd_sums[kColumns];  // a chain of its own, so that additions overlap
  for (int c = 0; c < kColumns; ++c) {
    std::int32_t sum = 0;
    for (int half = first / 4; half < last / 4; ++half) sum += x[c].sum16[half];
    sums[c] = S::seti(-Format::kOffset * sum);
    odd_sums[c] = S::seti(0);
  }
#pragma GCC unroll 8
  for (int k = first; k < last; ++k) {
    const I word = w.word(k);
    const I even = S::andi(word, low_bytes), odd = S::template shr16<8>(word);
#pragma GCC unroll 8
    for (int c = 0; c < kColumns; ++c) {
      sums[c] = S::dot2(sums[c], even, S::seti(x[c].pair(2 * k)));
      odd_sums[c] = S::dot2(odd_sums[c], odd, S::seti(x[c].pair(2 * k + 1)));
    }
  }
  for (int c = 0; c < kColumns; ++c) sums[c] = S::addi(sums[c], odd_sums[c]);
}

// The terms of block b for kColumns columns and the rows of vector v.
template <class S, class Format, int kColumns>
[[gnu::always_inline]] inline void block_terms(const Group<Format>& group, int b, int v,
                                               const ColumnBlock (&x)[kColumns],
                                               typename S::F (&t)[kColumns]) {
  constexpr int kSubs = kSubBlocks<Format>;
  typename S::I sums[kSubs][kColumns];
  const BlockQuads<S, Format> quads(group, b, v);
#pragma GCC unroll 2
  for (int j = 0; j < kSubs; ++j)
    integer_sums<S, Format, kColumns>(quads, x, 8 / kSubs * j, 8 / kSubs * (j + 1), sums[j]);
  const BlockScales<S, Format> scales = load_scales<S, Format>(group, b, v);
  for (int c = 0; c < kColumns; ++c)
    t[c] = block_term<S, Format>(sums[0][c], sums[kSubs - 1][c], scales, x[c]);
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
      for (int v = 0; v < kVectors; ++v)
        block_terms<S, Format, kColumns>(group, b0 + b, v, x, t[b][v]);
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
