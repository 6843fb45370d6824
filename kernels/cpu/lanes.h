// Loops and reductions over a vector class that several kernels share.
#pragma once

#include <limits>

#include "kernels/op/order.h"

namespace engine::cpu {

// fn.operator()<S>(i) for i = begin, begin + lanes, … while whole vectors fit, then the same with
// S::Tail for single elements. fn treats every element alike, so the split does not show in the
// results.
template <class S, class Fn>
void for_lanes(int begin, int end, const Fn& fn) {
  int i = begin;
  for (; i + S::kLanes <= end; i += S::kLanes) fn.template operator()<S>(i);
  for (; i < end; ++i) fn.template operator()<typename S::Tail>(i);
}

// op::halving_tree over n (a power of two >= lanes) floats in memory, wide while a step fills a
// vector.
template <class S>
float halving_tree(float* v, int n) {
  int h = n / 2;
  for (; h >= S::kLanes; h /= 2)
    for (int l = 0; l < h; l += S::kLanes)
      S::store(v + l, S::add(S::load(v + l), S::load(v + l + h)));
  for (; h > 0; h /= 2)
    for (int l = 0; l < h; ++l) v[l] = v[l] + v[l + h];
  return v[0];
}

// Adds term(i) for i in 0..n-1 to lane i mod kLanes in ascending order; lanes [kLanes] start as +0.
// accumulate.operator()<S>(lane sum, i) returns the new sum of the lanes i, i+1, ….
template <class S, int kLaneCount, class Fn>
void sum_in_lanes(int n, float* lanes, const Fn& accumulate) {
  for (int l = 0; l < kLaneCount; ++l) lanes[l] = 0.0f;
  for (int base = 0; base < n; base += kLaneCount) {
    const int count = n - base < kLaneCount ? n - base : kLaneCount;
    for_lanes<S>(0, count, [&]<class T>(int l) {
      T::store(lanes + l, accumulate.template operator()<T>(T::load(lanes + l), base + l));
    });
  }
}

// The largest of n numbers, NaN passed over; minus infinity if there is none.
template <class S>
float max_of(const float* x, int n) {
  constexpr float kLowest = -std::numeric_limits<float>::infinity();
  float lanes[S::kLanes];
  float rest = kLowest;
  int i = 0;
  typename S::F m = S::set(kLowest);
  for (; i + S::kLanes <= n; i += S::kLanes) m = S::max(S::load(x + i), m);
  S::store(lanes, m);
  for (; i < n; ++i) rest = x[i] > rest ? x[i] : rest;
  for (float lane : lanes) rest = lane > rest ? lane : rest;
  return rest;
}

// The tree over a segment's terms (op/order.h).
template <class S>
struct AddLanes {
  using Term = typename S::F;
  [[gnu::always_inline]] typename S::F operator()(typename S::F a, typename S::F b) const {
    return S::add(a, b);
  }
};
template <class S>
using TermTree = op::SegmentTree<AddLanes<S>>;

}  // namespace engine::cpu
