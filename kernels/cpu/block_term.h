// What the matmuls over planes share: columns and their tiles, prefetches, and the float part, from a
// block's integer sums to its term and the tree over terms (op/matmul.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/lanes.h"
#include "kernels/cpu/quads.h"
#include "kernels/op/matmul.h"

namespace engine::cpu {

// A block of one column of quantised activations.
struct ColumnBlock {
  const std::int16_t* q;  // [32]
  float scale;
  const std::int32_t* sum16;      // [2]
  const std::int32_t* product16;  // [2]
  // Pair p of 16-bit activations, in quad_position order, as one word.
  [[gnu::always_inline]] std::int32_t pair(int p) const {
    std::int32_t word;
    std::memcpy(&word, q + 2 * p, sizeof word);
    return word;
  }
};

[[gnu::always_inline]] inline ColumnBlock column_block(const op::MatmulArgs& a, int t, int b) {
  const std::ptrdiff_t at = static_cast<std::ptrdiff_t>(t) * (a.w.n_in / op::kBlock) + b;
  return {a.xq.q + at * op::kBlock, a.xq.scale[at], a.xq.sum16 + 2 * at, a.xq.product16 + 2 * at};
}

// Asks for the lines of `bytes` bytes from base + offset on, which may lie behind the matrix: whatever
// the address, a prefetch does no harm, but a pointer there would be undefined.
enum CacheLevel { kFirstLevel = 3, kSecondLevel = 2 };  // as __builtin_prefetch counts localities
template <CacheLevel level>
[[gnu::always_inline]] inline void prefetch(const std::uint8_t* base, std::size_t offset,
                                            std::size_t bytes) {
  const std::uintptr_t first = reinterpret_cast<std::uintptr_t>(base) + offset;
  for (std::size_t i = 0; i < bytes; i += 64)
    __builtin_prefetch(reinterpret_cast<const void*>(first + i), 0, level);
}

// fn.operator()<kColumns>(c) over 0..n-1 in tiles of kTileColumns, then of half as many, and so on.
template <class S, int kColumns = S::kTileColumns, class Fn>
[[gnu::always_inline]] inline void for_columns(int n, const Fn& fn, int c = 0) {
  for (; c + kColumns <= n; c += kColumns) fn.template operator()<kColumns>(c);
  if constexpr (kColumns > 1) for_columns<S, kColumns / 2>(n, fn, c);
}

// Sub-blocks of 16 or 32 that a block of 32 has.
template <class Format>
inline constexpr int kSubBlocks = op::kBlock / Format::Block::kSubBlock;

// first, last: the integer sums of the first and the last sub-block, which may be the same one.
template <class S, class Format>
[[gnu::always_inline]] inline typename S::F block_term(typename S::I first, typename S::I last,
                                                       const BlockScales<S, Format>& w,
                                                       const ColumnBlock& x) {
  using F = typename S::F;
  F a = S::to_float(first);
  if constexpr (Format::kHeadBytes > 0) a = S::mul(a, w.s);
  if constexpr (kSubBlocks<Format> == 2) a = S::fma(S::to_float(last), w.second_s, a);
  const F dx = S::set(x.scale), product = S::mul(w.d, dx);
  if constexpr (Format::Block::kMinimum == gguf::Minimum::subtract) {
    const F e = S::mul(S::set(static_cast<float>(x.sum16[0] + x.sum16[1])), w.n);
    return S::fma(a, product, S::neg(S::mul(e, S::mul(w.dmin, dx))));
  } else {
    return S::mul(a, product);
  }
}

// The tree over terms in memory; `stride` vectors lie between one block's and the next one's.
template <class S>
[[gnu::always_inline]] inline typename S::F segment_sum(const typename S::F* terms,
                                                        std::ptrdiff_t stride, int count) {
  TermTree<S> tree;
  if (count == op::kSegmentBlocks) {  // unrolled
    for (int b = 0; b < op::kSegmentBlocks; ++b) tree.add(b, terms[b * stride]);
    return tree.sum(op::kSegmentBlocks);
  }
  for (int b = 0; b < count; ++b) tree.add(b, terms[b * stride]);
  return tree.sum(count);
}

}  // namespace engine::cpu
