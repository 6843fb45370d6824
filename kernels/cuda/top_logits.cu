// grid: x: n_t, y: parts of a row; block: 256 threads. A block selects the best of its part; the last
// one of a row selects among what all have found.
//
// Selection: eight bits of the rank at a time, from the highest, a thread for each of their values,
// until exactly k ranks are not below what is known of the k-th.
#include "kernels/cuda/block.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/op/top_logits.h"

namespace engine::ENGINE_DEVICE_NS {
namespace {

using Rank = std::uint64_t;

constexpr int kBits = 8;
constexpr int kThreads = 1 << kBits;
constexpr int kWarps = kThreads / kWarp;

struct Shared {
  Rank best[op::kMaxTopLogits];
  int counts[kThreads];  // ranks with each value of the bits
  int warp_counts[kWarps];
  int chosen, above, is_exact, n_best, flag;
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

// shared->best = the k best of rank(0) … rank(n-1), in any order.
template <class RankAt>
__device__ void select(int n, int k, const RankAt& rank, Shared* shared) {
  const Rank threshold = find_threshold(n, k, rank, shared);
  if (thread_index() == 0) store_shared(&shared->n_best, 0);
  __syncthreads();
  for (int i = thread_index(); i < n; i += kThreads) {
    const Rank r = rank(i);
    if (r >= threshold) store_shared(&shared->best[atomicAdd(&shared->n_best, 1)], r);
  }
  __syncthreads();
}

__global__ void __launch_bounds__(kThreads) top_logits_kernel(op::TopLogitsArgs a) {
  auto* const shared = dynamic_shared<Shared>();
  const std::ptrdiff_t t = block_index();
  const int n_parts = static_cast<int>(gridDim.y), part = static_cast<int>(blockIdx.y);
  const int size = (a.n_vocab + n_parts - 1) / n_parts, first = part * size;
  const int n = min(size, a.n_vocab - first);
  const int n_ids = max(0, min(n, a.n_ids - first)), n_best = min(a.k, n_ids);
  const float* logits = a.logits + t * a.n_vocab + first;
  Rank* const parts = a.parts + t * n_parts * (a.k + 1);
  Rank* const mine = parts + static_cast<std::ptrdiff_t>(part) * (a.k + 1);
  // 1 finite?
  int is_bad = 0;
  for (int i = thread_index(); i < n; i += kThreads)
    is_bad |= op::is_bad_logit(load_readonly(logits + i)) ? 1 : 0;
  is_bad = __syncthreads_or(is_bad);
  // 2 order
  if (n_best > 0)
    select(
        n_ids, n_best,
        [&](int i) -> Rank { return op::logit_rank(load_readonly(logits + i), first + i); },
        shared);
  const int i = thread_index();
  if (i < a.k) store_global(mine + i, i < n_best ? load_shared(&shared->best[i]) : Rank{0});
  if (i == a.k) store_global(mine + i, static_cast<Rank>(is_bad));
  __syncthreads();
  if (i == 0) {
    const bool all_came =
        add_acquire_release(a.arrivals + t, 1u) == static_cast<unsigned>(n_parts - 1);
    if (all_came) store_global(a.arrivals + t, 0u);
    store_shared(&shared->flag, all_came ? 1 : 0);
  }
  __syncthreads();
  if (load_shared(&shared->flag) == 0) return;
  select(
      n_parts * a.k, a.k,
      [&](int at) { return load_global(parts + at / a.k * (a.k + 1) + at % a.k); }, shared);
  is_bad = __syncthreads_or(i < n_parts && load_global(parts + i * (a.k + 1) + a.k) != 0 ? 1 : 0);
  // 3 store
  if (i == 0) store_global(a.non_finite + t, static_cast<std::uint32_t>(is_bad));
  if (i >= a.k) return;
  const Rank rank = load_shared(&shared->best[i]);
  int place = 0;
  for (int other = 0; other < a.k; ++other)
    place += load_shared(&shared->best[other]) > rank ? 1 : 0;
  const int id = op::id_of_rank(rank);
  store_global(a.ids + t * a.k + place, id);
  store_global(a.values + t * a.k + place, load_readonly(a.logits + t * a.n_vocab + id));
}

}  // namespace

void top_logits(const op::TopLogitsArgs& a, Stream& stream) {
  if (a.n_t == 0) return;
  // Parts of fewer logits than these are not worth a block.
  constexpr int kMinPart = 1024;
  const int size = max(kMinPart, (a.n_vocab + op::kTopLogitsParts - 1) / op::kTopLogitsParts);
  const dim3 grid(static_cast<unsigned>(a.n_t),
                  static_cast<unsigned>((a.n_vocab + size - 1) / size));
  launch(top_logits_kernel, grid, kThreads, sizeof(Shared), stream, a);
}

}  // namespace engine::ENGINE_DEVICE_NS
