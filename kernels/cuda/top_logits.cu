// Spans. grid: x: spans of 128 ids, y: n_t; block: a thread for each id.
//
// Top logits. grid: n_t; block: 256 threads, which look through the spans whose best logits are among the k
// best of all spans: no other span has a logit that counts.
// Selection: eight bits of the rank at a time, from the highest, a thread for each of their values,
// until exactly k ranks are not below what is known of the k-th.
#include "kernels/cuda/block.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/logit_span.cuh"
#include "kernels/op/top_logits.h"

namespace engine::ENGINE_DEVICE_NS {
namespace {

using Rank = std::uint64_t;

constexpr int kBits = 8;
constexpr int kThreads = 1 << kBits;
constexpr int kWarps = kThreads / kWarp;

constexpr int kSpan = 128;
constexpr int kMostGathered = 1024;

struct Shared {
  Rank gathered[kMostGathered];
  Rank best[op::kMaxTopLogits];
  int spans[op::kMaxTopLogits];
  int counts[kThreads];  // ranks with each value of the bits
  int warp_counts[kWarps];
  int chosen, above, is_exact, n_best, n_gathered;
};

// How many ranks the threads above this one and this one have counted.
__device__ __forceinline__ int count_from_above(int count, Shared* shared) {
  int sum = count;
  for (int step = 1; step < kWarp; step *= 2) {
    const int other = __shfl_down_sync(kAllLanes, sum, static_cast<unsigned>(step));
    if (lane_index() + step < kWarp) sum += other;
  }
  if (lane_index() == 0) store_shared(&shared->warp_counts[warp_index()], sum);
  __syncthreads();
  for (int warp = warp_index() + 1; warp < kWarps; ++warp)
    sum += load_shared(&shared->warp_counts[warp]);
  return sum;
}

// The rank that exactly k of rank(0) … rank(n-1) reach; ranks differ, n >= k.
template <class RankAt>
__device__ Rank find_threshold(int n, int k, const RankAt& rank, Shared* shared) {
  Rank threshold = 0;
  for (int shift = 64 - kBits; shift >= 0; shift -= kBits) {
    store_shared(&shared->counts[thread_index()], 0);
    __syncthreads();
    for (int i = thread_index(); i < n; i += kThreads) {
      const Rank r = rank(i);
      // Those that agree with the threshold in the bits known so far.
      if (shift + kBits == 64 || r >> (shift + kBits) == threshold >> (shift + kBits))
        atomicAdd(&shared->counts[static_cast<int>(r >> shift) & (kThreads - 1)], 1);
    }
    __syncthreads();
    const int count = load_shared(&shared->counts[thread_index()]);
    const int reached = count_from_above(count, shared);
    if (reached >= k && reached - count < k) {
      store_shared(&shared->chosen, thread_index());
      store_shared(&shared->above, reached - count);
      store_shared(&shared->is_exact, reached == k ? 1 : 0);
    }
    __syncthreads();
    threshold |= static_cast<Rank>(load_shared(&shared->chosen)) << shift;
    k -= load_shared(&shared->above);
    if (load_shared(&shared->is_exact) != 0) break;
  }
  return threshold;
}

// shared->best = the k best of rank(0) … rank(n-1), in any order. Returns what exactly they reach.
template <class RankAt>
__device__ Rank select(int n, int k, const RankAt& rank, Shared* shared) {
  const Rank threshold = find_threshold(n, k, rank, shared);
  if (thread_index() == 0) store_shared(&shared->n_best, 0);
  __syncthreads();
  for (int i = thread_index(); i < n; i += kThreads) {
    const Rank r = rank(i);
    if (r >= threshold) store_shared(&shared->best[atomicAdd(&shared->n_best, 1)], r);
  }
  __syncthreads();
  return threshold;
}

__global__ void __launch_bounds__(kSpan) spans_kernel(op::TopLogitsArgs a) {
  const int id = block_index() * kSpan + thread_index();
  const std::ptrdiff_t t = blockIdx.y;
  const float logit = id < a.n_vocab ? load_readonly(a.logits + t * a.n_vocab + id) : 0.0f;
  store_span(id < a.n_ids ? op::logit_rank(logit, id) : Rank{0}, op::is_bad_logit(logit),
             dynamic_shared<Rank>(), a.spans + t * gridDim.x + block_index());
}

__global__ void __launch_bounds__(kThreads, 4) top_logits_kernel(op::TopLogitsArgs a) {
  auto* const shared = dynamic_shared<Shared>();
  const int i = thread_index();
  const std::ptrdiff_t t = block_index();
  const int n_spans = op::n_logit_spans(a.n_vocab, a.span);
  const float* const logits = a.logits + t * a.n_vocab;
  const op::LogitSpan* const spans = a.spans + t * n_spans;
  // 1 finite?
  int is_bad = 0;
  for (int s = i; s < n_spans; s += kThreads)
    is_bad |= load_global(&spans[s].non_finite) != 0 ? 1 : 0;
  is_bad = __syncthreads_or(is_bad);
  // 2 order
  const int n_with_ids = op::n_logit_spans(a.n_ids, a.span), n_searched = min(a.k, n_with_ids);
  Rank bound = select(
      n_with_ids, n_searched, [&](int s) { return load_global(&spans[s].best); }, shared);
  if (n_searched < a.k) bound = 0;  // all are searched, for more than their best
  if (i < n_searched)
    store_shared(&shared->spans[i], op::id_of_rank(load_shared(&shared->best[i])) / a.span);
  if (i == 0) store_shared(&shared->n_gathered, 0);
  __syncthreads();
  const int n = n_searched * a.span;
  const auto rank = [&](int at) {
    const int id = load_shared(&shared->spans[at / a.span]) * a.span + at % a.span;
    return id < a.n_ids ? op::logit_rank(load_readonly(logits + id), id) : Rank{0};
  };
  for (int at = i; at < n; at += kThreads) {
    const Rank r = rank(at);
    if (r == 0 || r < bound) continue;
    const int to = atomicAdd(&shared->n_gathered, 1);
    if (to < kMostGathered) store_shared(&shared->gathered[to], r);
  }
  __syncthreads();
  const int n_gathered = load_shared(&shared->n_gathered);
  if (n_gathered <= kMostGathered)
    select(
        n_gathered, a.k, [&](int at) { return load_shared(&shared->gathered[at]); }, shared);
  else
    select(n, a.k, rank, shared);
  // 3 store
  if (i == 0) store_global(a.non_finite + t, static_cast<std::uint32_t>(is_bad));
  if (i >= a.k) return;
  const Rank mine = load_shared(&shared->best[i]);
  int place = 0;
  for (int other = 0; other < a.k; ++other)
    place += load_shared(&shared->best[other]) > mine ? 1 : 0;
  const int id = op::id_of_rank(mine);
  store_global(a.ids + t * a.k + place, id);
  store_global(a.values + t * a.k + place, load_readonly(logits + id));
}

}  // namespace

void top_logits(const op::TopLogitsArgs& args, Stream& stream) {
  if (args.n_t == 0) return;
  op::TopLogitsArgs a = args;
  if (a.span == 0) {
    a.span = kSpan;
    const dim3 grid(static_cast<unsigned>(op::n_logit_spans(a.n_vocab, kSpan)),
                    static_cast<unsigned>(a.n_t));
    launch(spans_kernel, grid, kSpan, kSpan / kWarp * sizeof(Rank), stream, a);
  }
  launch(top_logits_kernel, a.n_t, kThreads, sizeof(Shared), stream, a);
}

}  // namespace engine::ENGINE_DEVICE_NS
