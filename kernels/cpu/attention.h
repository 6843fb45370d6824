// vector: a lane per key for the scores, a lane per dim for the values; each vector of K and V is
// widened once for up to kAttentionGroup queries.
// work item: one query, a head of a row. Queries come KV head by KV head, within one row by row from
// the last, whose work is the longest, within one head by head.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "kernels/cpu/lanes.h"
#include "kernels/cpu/leaf.h"
#include "kernels/op/attention.h"
#include "kernels/op/math.h"

namespace engine::cpu {

inline constexpr int kBlockQueries = 16;  // queries that share a tile while the caches hold it

// The keys of a tile that a query sees: slots first..last-1.
struct VisibleSlots {
  int first, last;
};

// How a tile joins what came before it: old * a + tile * b.
struct Merge {
  bool first;
  float a, b;
};

// A head of a row, and what it has gathered from the tiles so far.
struct AttentionQuery {
  const float* q;  // [d]
  float* out;      // [d], the weighted sum of values
  int begin, end;  // keys it sees
  bool empty;      // no tile so far
  float max, sum;
};

template <class S, class Element>
typename S::F load_kv(const Element* p) {
  if constexpr (sizeof(Element) == 2)
    return S::load_f16(p);
  else
    return S::load(p);
}

// Vectors in a register tile of n queries: enough sums to hide an fma's latency, with registers left
// for what is multiplied.
template <class S>
constexpr int tile_vectors(int n) {
  return S::kLanes == 16 ? 16 / n : n == 4 ? 3 : 8 / n;
}

// Calls fn.operator()<T, vectors>(i) for consecutive pieces of begin..end-1, each of so many vectors of
// T, at most kMost.
template <class S, int kMost, class Fn>
void for_tiles(int begin, int end, const Fn& fn) {
  int i = begin;
  for (; i + kMost * S::kLanes <= end; i += kMost * S::kLanes) fn.template operator()<S, kMost>(i);
  if constexpr (kMost > 2)
    for (; i + 2 * S::kLanes <= end; i += 2 * S::kLanes) fn.template operator()<S, 2>(i);
  for (; i + S::kLanes <= end; i += S::kLanes) fn.template operator()<S, 1>(i);
  for (; i < end; ++i) fn.template operator()<typename S::Tail, 1>(i);
}

// sums[r][v] += x(r) * vector v of `row`.
template <class S, int n, int kVectors, class Factor, class Element>
[[gnu::always_inline]] inline void add_products(const Factor& x, const Element* row,
                                                typename S::F (&sums)[n][kVectors]) {
  using F = typename S::F;
  // The fewer of the two sides are held in registers. A spilled one would cost much more than the
  // store: the processor stops looking ahead for what it must fetch from memory.
  if constexpr (n < kVectors) {
    F factor[n];
#pragma GCC unroll 4
    for (int r = 0; r < n; ++r) factor[r] = S::set(x(r));
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) {
      const F value = load_kv<S>(row + v * S::kLanes);
#pragma GCC unroll 4
      for (int r = 0; r < n; ++r) sums[r][v] = S::fma(factor[r], value, sums[r][v]);
    }
  } else {
    F value[kVectors];
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) value[v] = load_kv<S>(row + v * S::kLanes);
#pragma GCC unroll 4
    for (int r = 0; r < n; ++r) {
      const F factor = S::set(x(r));
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) sums[r][v] = S::fma(factor, value[v], sums[r][v]);
    }
  }
}

// s[r][j] = q_r . k_j for the slots j, j+1, … of kVectors vectors; those not visible hold anything.
template <class S, int n, int kVectors, class Element>
void tile_scores(const AttentionQuery* queries, const Element* keys, int d, int j,
                 float (*s)[op::kPage]) {
  for (int first = 0; first < d; first += op::kHeadSegment) {
    const int last = std::min(d, first + op::kHeadSegment);
    typename S::F p[n][kVectors];
#pragma GCC unroll 4
    for (int r = 0; r < n; ++r)
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) p[r][v] = S::set(0.0f);
    for (int i = first; i < last; ++i)
      add_products<S, n, kVectors>([&](int r) { return queries[r].q[i]; }, keys + i * op::kPage + j,
                                   p);
#pragma GCC unroll 4
    for (int r = 0; r < n; ++r)
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) {
        float* at = s[r] + j + v * S::kLanes;
        S::store(at, first == 0 ? p[r][v] : S::add(S::load(at), p[r][v]));
      }
  }
}

// Replaces scores by p_j = exp(s_j - m), +0 where not visible; returns m.
template <class S>
float tile_weights(float* s, VisibleSlots visible) {
  constexpr float kLowest = -std::numeric_limits<float>::infinity();
  for (int j = 0; j < visible.first; ++j) s[j] = kLowest;
  for (int j = visible.last; j < op::kPage; ++j) s[j] = kLowest;
  const float m = max_of<S>(s, op::kPage);
  for (int j = 0; j < op::kPage; j += S::kLanes)
    S::store(s + j, op::exp<S>(S::sub(S::load(s + j), S::set(m))));
  return m;
}

// What a group of queries has computed of one tile.
template <int n>
struct GroupTile {
  alignas(64) float p[n][op::kPage];
  VisibleSlots visible[n];
  VisibleSlots seen;    // by any of them
  VisibleSlots shared;  // by all of them; a query sees the rest of its own before and behind
  Merge merge[n];
};

// out_r = merge of out_r and o_r[i] = sum_j p_rj v_j[i], for the dims i, i+1, … of kVectors vectors.
template <class S, int n, int kVectors, class Element>
void tile_values(const GroupTile<n>& tile, const Element* values, int d, int i,
                 const AttentionQuery* queries) {
  typename S::F o[n][kVectors];
  const auto add_alone = [&](int r, int begin, int end) {
    for (int j = begin; j < end; ++j)
      for (int v = 0; v < kVectors; ++v)
        o[r][v] =
            S::fma(S::set(tile.p[r][j]), load_kv<S>(values + j * d + i + v * S::kLanes), o[r][v]);
  };
#pragma GCC unroll 4
  for (int r = 0; r < n; ++r) {
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) o[r][v] = S::set(0.0f);
    add_alone(r, tile.visible[r].first, std::min(tile.visible[r].last, tile.shared.first));
  }
  for (int j = tile.shared.first; j < tile.shared.last; ++j)
    add_products<S, n, kVectors>([&](int r) { return tile.p[r][j]; }, values + j * d + i, o);
#pragma GCC unroll 4
  for (int r = 0; r < n; ++r) {
    add_alone(r, std::max(tile.visible[r].first, tile.shared.last), tile.visible[r].last);
    if (tile.visible[r].first >= tile.visible[r].last) continue;
    const Merge merge = tile.merge[r];
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) {
      float* at = queries[r].out + i + v * S::kLanes;
      S::store(at, merge.first
                       ? o[r][v]
                       : S::fma(o[r][v], S::set(merge.b), S::mul(S::load(at), S::set(merge.a))));
    }
  }
}

// What `queries` see of a tile; false if nothing.
template <class S, int n>
bool see_tile(const AttentionQuery* queries, int tile, GroupTile<n>& t) {
  t.seen = {op::kPage, 0};
  t.shared = {0, op::kPage};
  for (int r = 0; r < n; ++r) {
    const int first = std::max(0, queries[r].begin - tile * op::kPage);
    const int last = std::min(op::kPage, queries[r].end - tile * op::kPage);
    t.visible[r] = first < last ? VisibleSlots{first, last} : VisibleSlots{0, 0};
    t.shared.first = std::max(t.shared.first, t.visible[r].first);
    t.shared.last = std::min(t.shared.last, t.visible[r].last);
    if (first >= last) continue;
    t.seen.first = std::min(t.seen.first, first);
    t.seen.last = std::max(t.seen.last, last);
  }
  t.shared.last = std::max(t.shared.first, t.shared.last);
  return t.seen.first < t.seen.last;
}

// Turns the scores in t.p into weights and finds out how the tile is to be merged.
template <class S, int n>
void weigh(AttentionQuery* queries, GroupTile<n>& t) {
  alignas(64) float shift[std::max(2 * n, S::kLanes)] = {};
  for (int r = 0; r < n; ++r) {
    if (t.visible[r].last == 0) continue;
    AttentionQuery& query = queries[r];
    const float m = tile_weights<S>(t.p[r], t.visible[r]);
    const float max = query.empty || m > query.max ? m : query.max;
    shift[2 * r] = query.empty ? 0.0f : query.max - max;
    shift[2 * r + 1] = m - max;
    query.max = max;
  }
  for (int i = 0; i < 2 * n; i += S::kLanes) S::store(shift + i, op::exp<S>(S::load(shift + i)));
  for (int r = 0; r < n; ++r) t.merge[r] = {queries[r].empty, shift[2 * r], shift[2 * r + 1]};
}

// One tile of `page` for n queries of one KV head.
template <class S, int n, class Element>
void attend_tile(const op::KvShape& shape, int kv_head, const std::byte* page, GroupTile<n>& t,
                 AttentionQuery* queries) {
  const std::ptrdiff_t first = std::ptrdiff_t{kv_head} * shape.d * op::kPage;
  const auto* keys = reinterpret_cast<const Element*>(page) + first;
  const auto* values = reinterpret_cast<const Element*>(page + shape.part_bytes()) + first;
  // 1 scores
  constexpr int kVectors = std::min(tile_vectors<S>(n), op::kPage / S::kLanes);
  constexpr int kStep = std::min(8 / n * S::kLanes, op::kPage);  // fewer sums would take as long
  for_tiles<S, kVectors>(t.seen.first / kStep * kStep, ((t.seen.last - 1) / kStep + 1) * kStep,
                         [&]<class T, int kPiece>(int j) {
                           tile_scores<T, n, kPiece>(queries, keys, shape.d, j, t.p);
                         });
  // 2 weights
  weigh<S, n>(queries, t);
  // 3 values
  for_tiles<S, tile_vectors<S>(n)>(0, shape.d, [&]<class T, int kVectors>(int i) {
    tile_values<T, n, kVectors>(t, values, shape.d, i, queries);
  });
  // 4 sums: the tree overwrites the weights, so they come last
  for (int r = 0; r < n; ++r) {
    if (t.visible[r].last == 0) continue;
    const float sum = halving_tree<S>(t.p[r], op::kPage);
    const Merge& merge = t.merge[r];
    queries[r].sum = merge.first ? sum : S::Tail::fma(sum, merge.b, queries[r].sum * merge.a);
    queries[r].empty = false;
  }
}

// n queries of one sequence and KV head.
template <class S, class Element>
void attend(const op::AttentionArgs& a, int sequence, int kv_head, AttentionQuery* queries, int n) {
  int begin = queries[0].begin, end = queries[0].end;
  for (int r = 1; r < n; ++r) {
    begin = std::min(begin, queries[r].begin);
    end = std::max(end, queries[r].end);
  }
  for (int tile = begin / op::kPage; tile * op::kPage < end; ++tile) {
    const std::byte* page = a.pages.tables[sequence][tile];
    const auto group = [&]<int size>(int r) {
      GroupTile<size> t;
      if (see_tile<S>(queries + r, tile, t))
        attend_tile<S, size, Element>(a.shape, kv_head, page, t, queries + r);
    };
    // A decode step finds its few queries' keys in main memory. What reads them row by row is then the
    // fastest, as the processor sees what comes next; the other queries find them in the caches.
    constexpr bool by_row = tile_vectors<S>(4) * S::kLanes >= op::kPage;
    int r = 0;
    if (by_row || n > kAttentionGroup) {
      for (; r + 4 <= n; r += 4) group.template operator()<4>(r);
      if (r + 2 <= n) group.template operator()<2>(r), r += 2;
    }
    for (; r < n; ++r) group.template operator()<1>(r);
  }
  // 5 quotient
  for (int r = 0; r < n; ++r)
    for_lanes<S>(0, a.shape.d, [&]<class T>(int i) {
      float* at = queries[r].out + i;
      T::store(at, T::div(T::load(at), T::set(queries[r].sum)));
    });
}

// Which query a work item is.
struct AttentionItem {
  int kv_head, t, h;
};

template <class S>
AttentionItem item_at(const op::AttentionArgs& a, int i) {
  const int n_rep = a.n_h / a.shape.n_kv, n_of_head = a.n_t * n_rep, kv_head = i / n_of_head;
  return {kv_head, a.n_t - 1 - i % n_of_head / n_rep, kv_head * n_rep + i % n_rep};
}

template <class S>
AttentionQuery query_of(const op::AttentionArgs& a, const AttentionItem& item) {
  const op::KvRow& row = a.rows[item.t];
  const std::ptrdiff_t at = (std::ptrdiff_t{item.t} * a.n_h + item.h) * a.shape.d;
  return {.q = a.q + at,
          .out = a.out + at,
          .begin = a.window > 0 ? std::max(0, row.pos - a.window + 1) : 0,
          .end = row.attend_until + 1,
          .empty = true,
          .max = 0,
          .sum = 0};
}

template <class S>
void attention_queries(const op::AttentionArgs& a, int begin, int end) {
  for (int i = begin; i < end;) {
    const AttentionItem first = item_at<S>(a, i);
    const int sequence = a.rows[first.t].sequence;
    AttentionQuery queries[kBlockQueries];
    queries[0] = query_of<S>(a, first);
    int n = 1;
    for (++i; i < end && n < kBlockQueries; ++i, ++n) {
      const AttentionItem next = item_at<S>(a, i);
      if (next.kv_head != first.kv_head || a.rows[next.t].sequence != sequence) break;
      queries[n] = query_of<S>(a, next);
    }
    if (a.shape.type == op::KvType::f16)
      attend<S, std::uint16_t>(a, sequence, first.kv_head, queries, n);
    else
      attend<S, float>(a, sequence, first.kv_head, queries, n);
  }
}

}  // namespace engine::cpu
