// Reduction orders. Every float sum in the engine is one of these, so that each backend, vector
// width, thread count and batch size adds the same numbers in the same order: the same bits.
#pragma once

#include "gguf/types.h"

namespace engine::op {

inline constexpr int kNormLanes = 128;  // partial sums of RMSNorm and logsumexp
inline constexpr int kDotLanes = 32;    // partial sums of a dot product with float weights
inline constexpr int kBlock = 32;       // inputs that share one activation scale
inline constexpr int kSegment = 256;    // inputs summed as a tree before they join the row's sum
inline constexpr int kSegmentBlocks = kSegment / kBlock;
inline constexpr int kHeadSegment = 64;   // dims of one partial attention score
inline constexpr int kVocabChunk = 4096;  // logits of one partial sum of exponentials

// v[l] += v[l + h] for h = n/2, n/4, … 1; returns v[0]. n is a power of two; v is overwritten.
template <class Float>
ENGINE_HD inline Float halving_tree(Float* v, int n) {
  for (int h = n / 2; h > 0; h /= 2)
    for (int l = 0; l < h; ++l) v[l] = v[l] + v[l + h];
  return v[0];
}

// ((t0+t1)+(t2+t3))+((t4+t5)+(t6+t7)) over up to eight terms, added as far as they have come; absent
// ones are skipped. Add is a binary function without state on Add::Term.
template <class Add>
struct SegmentTree {
  using T = typename Add::Term;
  T pairs[kSegmentBlocks / 2];

  // Term i; they come in order.
  ENGINE_HD [[gnu::always_inline]] void add(int i, const T& term) {
    pairs[i / 2] = i % 2 == 0 ? term : Add()(pairs[i / 2], term);
  }
  // Over the first n terms, 1 to 8.
  ENGINE_HD [[gnu::always_inline]] T sum(int n) const {
    const T first = n > 2 ? Add()(pairs[0], pairs[1]) : pairs[0];
    if (n <= 4) return first;
    return Add()(first, n > 6 ? Add()(pairs[2], pairs[3]) : pairs[2]);
  }
};

}  // namespace engine::op
