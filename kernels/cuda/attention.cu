// A block has kQueries queries, heads of one KV head in one row or several; they share every key and
// value in registers: each is loaded by one thread, once for all of them.
//
// grid: x: groups of rows, the last first, whose work is the longest; y: KV heads, and parts of their
// query heads where these are more than kQueries; z: splits. A block of split z has the tiles z, z + n, …
// block: a warp for every segment of 64 dims. Scores: the warp has a segment, a lane two keys. Weights:
// the warp has a query, a lane two slots. Values: a thread has two dims.
// shared memory: queries, partial scores of the segments, weights, what the queries have gathered.
#include <cstddef>
#include <cstdint>
#include <limits>

#include "kernels/cuda/block.cuh"
#include "kernels/cuda/kv_load.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/op/attention.h"
#include "kernels/op/math.h"

namespace engine::ENGINE_DEVICE_NS {
namespace {

using S = op::Scalar;

constexpr int kFewQueries = 4, kManyQueries = 8;
constexpr int kFewRows = 8;  // whose blocks have one row each
// Whose queries and partial scores fit the shared memory that a launch gets without asking.
constexpr int kMaxManyDims = 512;
constexpr int kMergeTiles = kWarp;  // tiles that are merged at a time

// The keys of a tile that a row sees: slots first..last-1.
struct Slots {
  int first, last;
  __device__ bool none() const { return first >= last; }
  __device__ bool has(int j) const { return j >= first && j < last; }
};

// What a row of the block sees: keys begin..end-1 of a sequence.
struct __align__(16) Row {
  int begin, end, sequence, unused;

  __device__ Slots slots(int tile) const {
    return {max(0, begin - tile * op::kPage), min(op::kPage, end - tile * op::kPage)};
  }
};

// How a tile joins what a query has gathered: old * a + tile * b. `sum` is the tile's l.
enum MergeKind : int { kUnseen, kFirst, kMerged };
struct __align__(16) Merge {
  float a, b, sum;
  int kind;
};

// Largest score so far, and sum of the weights.
struct __align__(8) Gathered {
  float max, sum;
};

struct MergeShared {
  Merge merges[kMergeTiles];
  float max;
};

template <int kQueries>
struct Shared {
  float4 weights[op::kPage][kQueries / 4];
  Merge merge[kQueries];
  Gathered gathered[kQueries];
  Row rows[kQueries];
  Merge merge_tiles[kQueries][kMergeTiles];
  // followed by
  //   float4 q[d][kQueries / 4];
  //   float scores[n_segments][kQueries][kPage];
};

// Which part of the work is the block's.
struct Part {
  int first_row, n_rows;  // rows of the call
  int kv_head;
  int first_head, n_heads;  // query heads
  int d, n_segments;
  int n_queries;  // n_rows * n_heads, row by row
};

template <int kHeadDim>
__device__ __forceinline__ Part part_of(const op::AttentionArgs& a, int heads, int rows) {
  Part part;
  const int n_rep = a.n_h / a.shape.n_kv, n_packs = (n_rep + heads - 1) / heads;
  const int y = static_cast<int>(blockIdx.y), pack = y % n_packs;
  part.first_row = (static_cast<int>(gridDim.x) - 1 - block_index()) * rows;
  part.n_rows = min(rows, a.n_t - part.first_row);
  part.kv_head = y / n_packs;
  part.first_head = part.kv_head * n_rep + pack * heads;
  part.n_heads = min(heads, n_rep - pack * heads);
  part.d = kHeadDim > 0 ? kHeadDim : a.shape.d;
  part.n_segments = (part.d + op::kHeadSegment - 1) / op::kHeadSegment;
  part.n_queries = part.n_rows * part.n_heads;
  return part;
}

// Of a call's arrays [n_t, n_h].
__device__ __forceinline__ std::ptrdiff_t query_index(const op::AttentionArgs& a, const Part& part,
                                                      int query) {
  const int t = part.first_row + query / part.n_heads;
  return static_cast<std::ptrdiff_t>(t) * a.n_h + part.first_head + query % part.n_heads;
}

template <int kQueries>
__device__ __forceinline__ float* queries_of(Shared<kQueries>* shared) {
  return reinterpret_cast<float*>(shared + 1);
}
template <int kQueries>
__device__ __forceinline__ float* scores_of(Shared<kQueries>* shared, const Part& part) {
  return queries_of(shared) + part.d * kQueries;
}

// Fills q, rows and gathered; queries beyond the last are zeros and see nothing.
template <int kQueries>
__device__ void begin_queries(const op::AttentionArgs& a, const Part& part,
                              Shared<kQueries>* shared) {
  const int n_threads = static_cast<int>(blockDim.x);
  float* q = queries_of(shared);
  for (int query = 0; query < kQueries; ++query) {
    const float* from =
        a.q + query_index(a, part, min(query, part.n_queries - 1)) * std::ptrdiff_t{part.d};
    for (int i = thread_index(); i < part.d; i += n_threads)
      store_shared(q + i * kQueries + query,
                   query < part.n_queries ? load_readonly(from + i) : 0.0f);
  }
  for (int i = thread_index(); i < op::kPage * kQueries; i += n_threads)
    store_shared(reinterpret_cast<float*>(shared->weights) + i, 0.0f);
  const int r = thread_index();
  if (r >= kQueries) return;
  store_shared(&shared->gathered[r], Gathered{0.0f, 0.0f});
  store_shared(&shared->merge[r], Merge{0.0f, 0.0f, 0.0f, kUnseen});
  Row row = {0, 0, -1, 0};
  if (r < part.n_rows) {
    const op::KvRow* from = a.rows + part.first_row + r;
    const int pos = load_readonly(&from->pos);
    row = {a.window > 0 ? max(0, pos - a.window + 1) : 0, load_readonly(&from->attend_until) + 1,
           load_readonly(&from->sequence), 0};
  }
  store_shared(&shared->rows[r], row);
}

// Rows of the block that follow each other in one sequence, and what they see of a tile.
struct Run {
  int first, last;  // rows first..last-1 of the block
  int begin, end;   // keys seen by any of them
  int sequence;
};
struct Seen {
  Slots any, all;  // by any row of the run; by all that see some of the tile
};

template <int kQueries>
__device__ __forceinline__ Run run_from(const Shared<kQueries>* shared, const Part& part,
                                        int first) {
  Row row = load_shared(&shared->rows[first]);
  Run run = {first, first + 1, row.begin, row.end, row.sequence};
  for (; run.last < part.n_rows; ++run.last) {
    row = load_shared(&shared->rows[run.last]);
    if (row.sequence != run.sequence) break;
    run.begin = min(run.begin, row.begin);
    run.end = max(run.end, row.end);
  }
  return run;
}

template <int kQueries>
__device__ __forceinline__ Seen see_tile(const Shared<kQueries>* shared, const Run& run, int tile) {
  Seen seen = {{op::kPage, 0}, {0, op::kPage}};
  for (int r = run.first; r < run.last; ++r) {
    const Slots slots = load_shared(&shared->rows[r]).slots(tile);
    if (slots.none()) continue;
    seen.all = {max(seen.all.first, slots.first), min(seen.all.last, slots.last)};
    seen.any = {min(seen.any.first, slots.first), max(seen.any.last, slots.last)};
  }
  return seen;
}

// sum[r] += x[r] * pair for all queries; x [kQueries] in shared memory.
template <int kQueries>
__device__ __forceinline__ void add_products(const float4* x, const float2& pair,
                                             float2 (&sum)[kQueries]) {
  const auto add = [&](float2& to, float factor) {
    to.x = S::fma(factor, pair.x, to.x);
    to.y = S::fma(factor, pair.y, to.y);
  };
#pragma unroll
  for (int r = 0; r < kQueries; r += 4) {
    const float4 four = load_shared(x + r / 4);
    add(sum[r], four.x);
    add(sum[r + 1], four.y);
    add(sum[r + 2], four.z);
    add(sum[r + 3], four.w);
  }
}

// The partial scores of the warp's segment. Keys outside of `seen` are not read.
template <int kHeadDim, int kQueries, class Element>
__device__ __forceinline__ void tile_scores(const Element* keys, const Part& part,
                                            const Slots& seen, Shared<kQueries>* shared) {
  const int segment = warp_index(), slot = 2 * lane_index();
  static_assert(kHeadDim % op::kHeadSegment == 0);
  const int first = segment * op::kHeadSegment;
  const int n = kHeadDim > 0 ? op::kHeadSegment : min(op::kHeadSegment, part.d - first);
  float2 p[kQueries] = {};
  const bool first_seen = seen.has(slot), second_seen = seen.has(slot + 1);
  if (first_seen || second_seen) {
    const auto* q = reinterpret_cast<const float4*>(queries_of(shared)) + first * (kQueries / 4);
    const Element* key = keys + static_cast<std::ptrdiff_t>(first) * op::kPage + slot;
#pragma unroll 8
    for (int i = 0; i < n; ++i)
      add_products<kQueries>(q + i * (kQueries / 4),
                             load_keys(key + i * op::kPage, first_seen, second_seen), p);
  }
  auto* scores =
      reinterpret_cast<float2*>(scores_of(shared, part) + segment * kQueries * op::kPage + slot);
#pragma unroll
  for (int r = 0; r < kQueries; ++r) store_shared(scores + r * (op::kPage / 2), p[r]);
}

// Turns a query's scores into weights; returns m, and l.
template <int kQueries>
__device__ __forceinline__ Gathered tile_weights(const Part& part, const Slots& slots, int query,
                                                 Shared<kQueries>* shared) {
  const int j = lane_index();
  const float* scores = scores_of(shared, part) + query * op::kPage;
  float s[2];
  for (int half = 0; half < 2; ++half) {
    const float* at = scores + j + half * kWarp;
    s[half] = load_shared(at);
    for (int segment = 1; segment < part.n_segments; ++segment)
      s[half] = s[half] + load_shared(at + segment * kQueries * op::kPage);
  }
  const bool seen[2] = {slots.has(j), slots.has(j + kWarp)};
  float m = -std::numeric_limits<float>::infinity();
  for (int half = 0; half < 2; ++half)
    if (seen[half]) m = S::max(s[half], m);
  m = warp_max(m);
  float p[2];
  for (int half = 0; half < 2; ++half) {
    p[half] = seen[half] ? op::exp(s[half] - m) : 0.0f;
    store_shared(reinterpret_cast<float*>(shared->weights) + (j + half * kWarp) * kQueries + query,
                 p[half]);
  }
  return {m, warp_tree(p[0] + p[1])};
}

// How a tile with maximum m joins a query whose maximum becomes `max`.
__device__ __forceinline__ Merge merge_of(bool first, float before, const Gathered& tile,
                                          float max) {
  if (first) return {0.0f, 1.0f, tile.sum, kFirst};
  return {op::exp(before - max), op::exp(tile.max - max), tile.sum, kMerged};
}
__device__ __forceinline__ float merged(const Merge& merge, float old, float tile) {
  return merge.kind == kFirst ? tile : S::fma(tile, merge.b, old * merge.a);
}

// Weights of the warp's queries, and how the tile joins what they have gathered; in a split, m and l
// are handed over instead.
template <int kQueries>
__device__ __forceinline__ void weigh(const op::AttentionArgs& a, const Part& part, const Run& run,
                                      int tile, bool is_split, Shared<kQueries>* shared) {
  const int n_warps = static_cast<int>(blockDim.x) / kWarp;
  for (int query = warp_index(); query < part.n_queries; query += n_warps) {
    const int r = query / part.n_heads;
    const Row row = load_shared(&shared->rows[r]);
    const Slots slots = row.slots(tile);
    const bool is_seen = r >= run.first && r < run.last && !slots.none();
    Gathered sums = {};
    if (is_seen) sums = tile_weights(part, slots, query, shared);
    if (lane_index() != 0) continue;
    Merge merge = {0.0f, 0.0f, 0.0f, kUnseen};
    if (is_seen && is_split) {
      const std::ptrdiff_t at =
          query_index(a, part, query) * a.split.max_tiles + tile - row.begin / op::kPage;
      store_global(reinterpret_cast<float2*>(a.split.sums) + at, float2{sums.max, sums.sum});
      merge.kind = kFirst;
    } else if (is_seen) {
      const Gathered old = load_shared(&shared->gathered[query]);
      const bool first = tile == row.begin / op::kPage;
      const float max = first ? sums.max : S::max(sums.max, old.max);
      merge = merge_of(first, old.max, sums, max);
      store_shared(&shared->gathered[query], Gathered{max, merged(merge, old.sum, sums.sum)});
    }
    store_shared(&shared->merge[query], merge);
  }
}

// o[r] = sum_j p_rj v_j of the thread's dims; anything for queries that see nothing of the tile or are
// not of the run.
template <int kQueries, class Element>
__device__ __forceinline__ void tile_values(const Element* values, const Part& part, int tile,
                                            const Seen& seen, const Shared<kQueries>* shared,
                                            float2 (&o)[kQueries]) {
#pragma unroll
  for (int r = 0; r < kQueries; ++r) o[r] = {0.0f, 0.0f};
  const Element* value = values + 2 * thread_index();
  // Where only some queries see the key, the others keep their sums.
  const auto add_for_some = [&](int begin, int end) {
    for (int j = begin; j < end; ++j) {
      float2 sum[kQueries];
#pragma unroll
      for (int r = 0; r < kQueries; ++r) sum[r] = o[r];
      add_products<kQueries>(shared->weights[j], load_values(value + j * part.d), sum);
#pragma unroll
      for (int r = 0; r < kQueries; ++r) {
        const Row row = load_shared(&shared->rows[r / part.n_heads]);
        if (row.slots(tile).has(j)) o[r] = sum[r];
      }
    }
  };
  add_for_some(seen.any.first, min(seen.any.last, seen.all.first));
#pragma unroll 8
  for (int j = seen.all.first; j < seen.all.last; ++j)
    add_products<kQueries>(shared->weights[j], load_values(value + j * part.d), o);
  add_for_some(max(seen.any.first, max(seen.all.first, seen.all.last)), seen.any.last);
}

// All tiles of the block's split that the run sees. O: what the thread's dims have gathered.
template <class Element, int kHeadDim, int kQueries>
__device__ __forceinline__ void attend(const op::AttentionArgs& a, const Part& part, const Run& run,
                                       int n_splits, Shared<kQueries>* shared,
                                       float2 (&O)[kQueries]) {
  const std::ptrdiff_t head = static_cast<std::ptrdiff_t>(part.kv_head) * part.d * op::kPage;
  const std::ptrdiff_t part_size = static_cast<std::ptrdiff_t>(a.shape.n_kv) * part.d * op::kPage;
  const std::byte* const* pages = load_readonly(a.pages.tables + run.sequence);
  const bool has_dims = 2 * thread_index() < part.d;
  for (int tile = run.begin / op::kPage + static_cast<int>(blockIdx.z); tile * op::kPage < run.end;
       tile += n_splits) {
    const Seen seen = see_tile(shared, run, tile);
    if (seen.any.none()) continue;
    const auto* page = reinterpret_cast<const Element*>(load_readonly(pages + tile));
    // 1 scores
    tile_scores<kHeadDim>(page + head, part, seen.any, shared);
    __syncthreads();
    // 2 weights
    weigh(a, part, run, tile, n_splits > 1, shared);
    __syncthreads();
    // 3 values
    if (!has_dims) continue;
    float2 o[kQueries];
    tile_values(page + part_size + head, part, tile, seen, shared, o);
#pragma unroll
    for (int r = 0; r < kQueries; ++r) {
      const Merge merge = load_shared(&shared->merge[r]);
      if (merge.kind == kUnseen) continue;
      if (n_splits > 1) {
        const std::ptrdiff_t at =
            query_index(a, part, r) * a.split.max_tiles + tile - run.begin / op::kPage;
        store_global(reinterpret_cast<float2*>(a.split.values + at * part.d) + thread_index(),
                     o[r]);
      } else {
        O[r] = {merged(merge, O[r].x, o[r].x), merged(merge, O[r].y, o[r].y)};
      }
    }
  }
}

// True in the last of n_splits blocks to come here, which then sees what the others have stored.
template <int kQueries>
__device__ __forceinline__ bool is_last(const op::AttentionArgs& a, const Part& part, int n_splits,
                                        Shared<kQueries>* shared) {
  __syncthreads();
  auto* const last = reinterpret_cast<int*>(&shared->merge[0]);
  if (thread_index() == 0) {
    unsigned* arrivals = a.split.arrivals + query_index(a, part, 0);
    const bool all_came = add_acquire_release(arrivals, 1u) == static_cast<unsigned>(n_splits - 1);
    if (all_came) store_global(arrivals, 0u);
    store_shared(last, all_came ? 1 : 0);
  }
  __syncthreads();
  return load_shared(last) != 0;
}

// How each of kMergeTiles tiles from `first` on joins the query; the lane has a tile. sums: m and l of
// the query's tiles; max: the largest m before `first`, then of all.
__device__ __forceinline__ void plan_merges(const float* sums, int first, int n_tiles,
                                            Merge* merges, float* max) {
  const int lane = lane_index(), tile = first + lane;
  Gathered own = {-std::numeric_limits<float>::infinity(), 0.0f};
  if (tile < n_tiles) {
    const float2 stored = load_global(reinterpret_cast<const float2*>(sums) + tile);
    own = {stored.x, stored.y};
  }
  // The largest of the tiles up to the lane's, and of those before it.
  float largest = own.max;
  for (int step = 1; step < kWarp; step *= 2) {
    const float other = __shfl_up_sync(kAllLanes, largest, static_cast<unsigned>(step));
    if (lane >= step) largest = S::max(largest, other);
  }
  const float carried = load_shared(max);
  if (first > 0) largest = S::max(largest, carried);
  float before = __shfl_up_sync(kAllLanes, largest, 1u);
  if (lane == 0) before = carried;
  store_shared(merges + lane, merge_of(tile == 0, before, own, largest));
  __syncwarp();
  if (lane == kWarp - 1) store_shared(max, largest);
}

// Merges n planned tiles of a query into the thread's dims; values: theirs of the first one.
__device__ __forceinline__ void merge_planned(const Merge* merges, const float* values, int d,
                                              int n, float2& O, float& L) {
#pragma unroll 8
  for (int i = 0; i < n; ++i) {
    const float2 o =
        load_global(reinterpret_cast<const float2*>(values + static_cast<std::ptrdiff_t>(i) * d));
    const Merge merge = load_shared(merges + i);
    O = {merged(merge, O.x, o.x), merged(merge, O.y, o.y)};
    L = merged(merge, L, merge.sum);
  }
}

__device__ __forceinline__ void store_quotient(float* out, const float2& O, float L) {
  store_global(out, O.x / L);
  store_global(out + 1, O.y / L);
}

// Merges the tiles that all blocks have handed over, kMergeTiles at most.
template <int kQueries>
__device__ __forceinline__ void merge_splits(const op::AttentionArgs& a, const Part& part,
                                             int n_tiles, Shared<kQueries>* shared) {
  const int n_warps = static_cast<int>(blockDim.x) / kWarp, i = 2 * thread_index();
  for (int query = warp_index(); query < part.n_queries; query += n_warps)
    plan_merges(a.split.sums + 2 * query_index(a, part, query) * a.split.max_tiles, 0, n_tiles,
                shared->merge_tiles[query], &shared->gathered[query].max);
  __syncthreads();
  if (i >= part.d) return;
  for (int query = 0; query < part.n_queries; ++query) {
    const std::ptrdiff_t at = query_index(a, part, query);
    float2 O = {};
    float L = 0.0f;
    merge_planned(shared->merge_tiles[query], a.split.values + at * a.split.max_tiles * part.d + i,
                  part.d, n_tiles, O, L);
    store_quotient(a.out + at * part.d + i, O, L);
  }
}

// Where a row may have more tiles, one block would take too long: a launch of its own merges them.
// grid: x: n_h, y: n_t; block: a thread has two dims.
__global__ void attention_merge_kernel(op::AttentionArgs a) {
  auto* const shared = dynamic_shared<MergeShared>();
  const int d = a.shape.d, i = 2 * thread_index(), t = static_cast<int>(blockIdx.y);
  const std::ptrdiff_t at = static_cast<std::ptrdiff_t>(t) * a.n_h + block_index();
  const int pos = load_readonly(&a.rows[t].pos), until = load_readonly(&a.rows[t].attend_until);
  const int begin = a.window > 0 ? max(0, pos - a.window + 1) : 0;
  const int n_tiles = until / op::kPage - begin / op::kPage + 1;
  if (n_tiles == 1) return;  // nobody shared them
  float2 O = {};
  float L = 0.0f;
  if (thread_index() == 0) store_shared(&shared->max, 0.0f);
  for (int first = 0; first < n_tiles; first += kMergeTiles) {
    __syncthreads();  // the last merges were planned in the same place
    if (warp_index() == 0)
      plan_merges(a.split.sums + 2 * at * a.split.max_tiles, first, n_tiles, shared->merges,
                  &shared->max);
    __syncthreads();
    if (i < d)
      merge_planned(shared->merges, a.split.values + (at * a.split.max_tiles + first) * d + i, d,
                    min(kMergeTiles, n_tiles - first), O, L);
  }
  if (i < d) store_quotient(a.out + at * d + i, O, L);
}

// At most so many; the engine admits heads of up to 1,024 dims.
template <int kHeadDim, int kQueries>
constexpr int max_threads() {
  return kHeadDim > 0 ? kHeadDim / 2 : kQueries == kManyQueries ? kMaxManyDims / 2 : 512;
}

// heads, rows: of a block, heads * rows <= kQueries. One block per multiprocessor is enough to ask
// for: asked for none, ptxas spills to have more of them.
template <class Element, int kHeadDim, int kQueries>
__global__ void __launch_bounds__(max_threads<kHeadDim, kQueries>(), 1)
    attention_kernel(op::AttentionArgs a, int heads, int rows) {
  auto* const shared = dynamic_shared<Shared<kQueries>>();
  const Part part = part_of<kHeadDim>(a, heads, rows);
  begin_queries(a, part, shared);
  __syncthreads();
  float2 O[kQueries] = {};
  if (kQueries > kFewQueries || gridDim.z == 1) {
    for (int r = 0; r < part.n_rows;) {
      const Run run = run_from(shared, part, r);
      attend<Element, kHeadDim>(a, part, run, 1, shared, O);
      r = run.last;
    }
  } else {  // blocks of one row
    const Run run = run_from(shared, part, 0);
    const int n_tiles = (run.end - 1) / op::kPage - run.begin / op::kPage + 1;
    const int n_splits = min(static_cast<int>(gridDim.z), n_tiles);
    if (static_cast<int>(blockIdx.z) >= n_splits) return;
    attend<Element, kHeadDim>(a, part, run, n_splits, shared, O);
    if (n_splits > 1) {
      if (a.split.max_tiles > kMergeTiles || !is_last(a, part, n_splits, shared)) return;
      // 4 sums of the tiles  5 quotient
      return merge_splits(a, part, n_tiles, shared);
    }
  }
  if (2 * thread_index() >= part.d) return;
    // 5 quotient
#pragma unroll
  for (int r = 0; r < kQueries; ++r) {
    if (r >= part.n_queries) break;
    store_quotient(a.out + query_index(a, part, r) * part.d + 2 * thread_index(), O[r],
                   load_shared(&shared->gathered[r].sum));
  }
}

template <class Element, int kHeadDim, int kQueries>
void launch_attention(const op::AttentionArgs& a, Stream& stream) {
  const int n_rep = a.n_h / a.shape.n_kv, heads = min(n_rep, kQueries);
  const int rows = kQueries == kFewQueries ? 1 : kQueries / heads;
  const int n_segments = (a.shape.d + op::kHeadSegment - 1) / op::kHeadSegment;
  const dim3 grid(static_cast<unsigned>((a.n_t + rows - 1) / rows),
                  static_cast<unsigned>(a.shape.n_kv * ((n_rep + heads - 1) / heads)),
                  static_cast<unsigned>(a.split.n));
  const std::size_t floats = static_cast<std::size_t>(kQueries) *
                             static_cast<std::size_t>(a.shape.d + n_segments * op::kPage);
  launch(attention_kernel<Element, kHeadDim, kQueries>, {grid, "attention"},
         static_cast<unsigned>(n_segments * kWarp),
         sizeof(Shared<kQueries>) + floats * sizeof(float), stream, a, heads, rows);
  if (a.split.n > 1 && a.split.max_tiles > kMergeTiles)
    launch(attention_merge_kernel,
           {dim3(static_cast<unsigned>(a.n_h), static_cast<unsigned>(a.n_t)), "attention"},
           static_cast<unsigned>(n_segments * kWarp), sizeof(MergeShared), stream, a);
}

template <class Element, int kHeadDim>
void launch_for_rows(const op::AttentionArgs& a, Stream& stream) {
  if (a.split.n > 1 || a.n_t <= kFewRows || a.shape.d > kMaxManyDims)
    launch_attention<Element, kHeadDim, kFewQueries>(a, stream);
  else
    launch_attention<Element, kHeadDim, kManyQueries>(a, stream);
}

template <class Element>
void launch_for_dims(const op::AttentionArgs& a, Stream& stream) {
  switch (a.shape.d) {
    case 256:
      return launch_for_rows<Element, 256>(a, stream);
    case 128:
      return launch_for_rows<Element, 128>(a, stream);
    default:
      return launch_for_rows<Element, 0>(a, stream);
  }
}

// On a local layer no row sees more tiles than its window and what lies ahead of it touch.
op::AttentionSplit narrowed(const op::AttentionArgs& a) {
  op::AttentionSplit split = a.split;
  if (split.n == 1 || a.window == 0) return split;
  const int n_keys = min(a.window, split.max_tiles * op::kPage) + split.ahead;
  split.max_tiles = min(split.max_tiles, (n_keys + op::kPage - 2) / op::kPage + 1);
  split.n = min(split.n, split.max_tiles);
  return split;
}

}  // namespace

void attention(const op::AttentionArgs& all, Stream& stream) {
  if (all.n_t == 0) return;
  op::AttentionArgs a = all;
  a.split = narrowed(all);
  if (a.shape.type == op::KvType::f16)
    launch_for_dims<std::uint16_t>(a, stream);
  else
    launch_for_dims<float>(a, stream);
}

}  // namespace engine::ENGINE_DEVICE_NS
