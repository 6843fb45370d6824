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

// ((t0+t1)+(t2+t3))+((t4+t5)+(t6+t7)) over the first n of up to eight terms; absent terms are
// skipped. Add is a binary function on T.
template <class T, class Add>
ENGINE_HD inline T segment_tree(const T* t, int n, Add add) {
  const auto pair = [&](int i) { return i + 1 < n ? add(t[i], t[i + 1]) : t[i]; };
  const auto quad = [&](int i) { return i + 2 < n ? add(pair(i), pair(i + 2)) : pair(i); };
  return n > 4 ? add(quad(0), quad(4)) : quad(0);
}

}  // namespace engine::op
