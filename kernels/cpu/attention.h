// vector: a lane per key for the scores, a lane per dim for the values.
// work item: one (row, head).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "kernels/cpu/lanes.h"
#include "kernels/op/attention.h"
#include "kernels/op/math.h"

namespace engine::cpu {

// The keys of a tile that a row sees: slots first..last-1.
struct VisibleSlots {
  int first, last;
};

template <class S, class Element>
typename S::F load_kv(const Element* p) {
  if constexpr (sizeof(Element) == 2)
    return S::load_f16(p);
  else
    return S::load(p);
}

// s[j] = q . k_j for all 64 slots; those not visible hold anything.
template <class S, class Element>
void tile_scores(const float* q, const Element* keys, int d, float* s) {
  constexpr int n_vectors = op::kPage / S::kLanes;
  for (int first = 0; first < d; first += op::kHeadSegment) {
    typename S::F p[n_vectors];
    for (int v = 0; v < n_vectors; ++v) p[v] = S::set(0.0f);
    for (int i = first; i < std::min(d, first + op::kHeadSegment); ++i)
      for (int v = 0; v < n_vectors; ++v)
        p[v] = S::fma(S::set(q[i]), load_kv<S>(keys + i * op::kPage + v * S::kLanes), p[v]);
    for (int v = 0; v < n_vectors; ++v) {
      float* at = s + v * S::kLanes;
      S::store(at, first == 0 ? p[v] : S::add(S::load(at), p[v]));
    }
  }
}

// Replaces scores by p_j = exp(s_j - m), +0 where not visible; returns m.
template <class S>
float tile_weights(float* s, VisibleSlots visible) {
  constexpr float kLowest = -std::numeric_limits<float>::infinity();
  float m = kLowest;
  for (int j = visible.first; j < visible.last; ++j) m = s[j] > m ? s[j] : m;
  for (int j = 0; j < op::kPage; j += S::kLanes)
    S::store(s + j, op::exp<S>(S::sub(S::load(s + j), S::set(m))));
  // The other slots held anything, and so does what exp made of it.
  for (int j = 0; j < visible.first; ++j) s[j] = 0.0f;
  for (int j = visible.last; j < op::kPage; ++j) s[j] = 0.0f;
  return m;
}

// How a tile joins what came before it: old * a + tile * b.
struct Merge {
  bool first;
  float a, b;
};

// out = merge of out and o[i] = sum_j p_j v_j[i], for the dims i, i+1, … of kVectors vectors.
template <class S, int kVectors, class Element>
void tile_values(const float* p, VisibleSlots visible, const Element* values, int d, int i,
                 Merge merge, float* out) {
  typename S::F o[kVectors];
  for (int v = 0; v < kVectors; ++v) o[v] = S::set(0.0f);
  for (int j = visible.first; j < visible.last; ++j)
    for (int v = 0; v < kVectors; ++v)
      o[v] = S::fma(S::set(p[j]), load_kv<S>(values + j * d + i + v * S::kLanes), o[v]);
  for (int v = 0; v < kVectors; ++v) {
    float* at = out + i + v * S::kLanes;
    S::store(at, merge.first ? o[v]
                             : S::fma(o[v], S::set(merge.b), S::mul(S::load(at), S::set(merge.a))));
  }
}

template <class S, class Element>
void attend(const op::AttentionArgs& a, int t, int h) {
  const op::KvRow& row = a.rows[t];
  const int d = a.shape.d;
  const std::ptrdiff_t kv_head = h / (a.n_h / a.shape.n_kv);
  const float* q = a.q + (static_cast<std::ptrdiff_t>(t) * a.n_h + h) * d;
  float* out = a.out + (static_cast<std::ptrdiff_t>(t) * a.n_h + h) * d;
  const int begin = a.window > 0 ? std::max(0, row.pos - a.window + 1) : 0;
  const int end = row.attend_until + 1;

  alignas(64) float s[op::kPage];
  float running_max = 0.0f, running_sum = 0.0f;
  bool first = true;
  for (int tile = begin / op::kPage; tile * op::kPage < end; ++tile) {
    const std::byte* page = a.pages.tables[row.sequence][tile];
    const auto* keys = reinterpret_cast<const Element*>(page) + kv_head * d * op::kPage;
    const auto* values =
        reinterpret_cast<const Element*>(page + a.shape.part_bytes()) + kv_head * d * op::kPage;
    const VisibleSlots visible = {std::max(0, begin - tile * op::kPage),
                                  std::min(op::kPage, end - tile * op::kPage)};
    // 1 scores
    tile_scores<S>(q, keys, d, s);
    // 2 weights
    const float m = tile_weights<S>(s, visible);
    const float new_max = first ? m : running_max > m ? running_max : m;
    const Merge merge = {first, first ? 0.0f : op::exp<typename S::Tail>(running_max - new_max),
                         first ? 1.0f : op::exp<typename S::Tail>(m - new_max)};
    // 3 values
    constexpr int kVectors = 8;
    int i = 0;
    for (; i + kVectors * S::kLanes <= d; i += kVectors * S::kLanes)
      tile_values<S, kVectors>(s, visible, values, d, i, merge, out);
    for (; i + S::kLanes <= d; i += S::kLanes)
      tile_values<S, 1>(s, visible, values, d, i, merge, out);
    for (; i < d; ++i) tile_values<typename S::Tail, 1>(s, visible, values, d, i, merge, out);
    // 4 merge: the tree overwrites the weights, so it comes last
    const float sum = halving_tree<S>(s, op::kPage);
    running_sum = first ? sum : S::Tail::fma(sum, merge.b, running_sum * merge.a);
    running_max = new_max;
    first = false;
  }
  // 5 quotient
  for_lanes<S>(0, d, [&]<class T>(int i) {
    T::store(out + i, T::div(T::load(out + i), T::set(running_sum)));
  });
}

template <class S>
void attention_pairs(const op::AttentionArgs& a, int begin, int end) {
  for (int pair = begin; pair < end; ++pair) {
    if (a.shape.type == op::KvType::f16)
      attend<S, std::uint16_t>(a, pair / a.n_h, pair % a.n_h);
    else
      attend<S, float>(a, pair / a.n_h, pair % a.n_h);
  }
}

}  // namespace engine::cpu
