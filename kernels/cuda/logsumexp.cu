// grid: n_t; block: 8 groups of kNormLanes threads, a row a block; a group has every eighth chunk,
// thread l of it is lane l of the chunk's sum; shared memory: the lanes' and the chunks' sums.
#include <cstddef>
#include <limits>

#include "kernels/cuda/block.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/op/logsumexp.h"
#include "kernels/op/math.h"

namespace engine::ENGINE_DEVICE_NS {
namespace {

constexpr int kGroups = 8;
constexpr int kThreads = kGroups * op::kNormLanes;
constexpr int kWarps = kThreads / kWarp;

struct Shared {
  float lanes[kGroups][op::kNormLanes];
  float chunks[kGroups];
  float maxima[kWarps];
};

// The largest of the row, NaN passed over; minus infinity if there is none. Every thread gets it.
__device__ float row_maximum(const float* logits, int n, Shared* shared) {
  using S = op::Scalar;
  float m = -std::numeric_limits<float>::infinity();
  for (int i = thread_index(); i < n; i += kThreads) m = S::max(load_readonly(logits + i), m);
  m = warp_max(m);
  if (lane_index() == 0) store_shared(&shared->maxima[warp_index()], m);
  __syncthreads();
  static_assert(kWarps == kWarp);
  return warp_max(load_shared(&shared->maxima[lane_index()]));
}

__global__ void __launch_bounds__(kThreads) logsumexp_kernel(op::LogSumExpArgs a) {
  auto* const shared = dynamic_shared<Shared>();
  const int group = thread_index() / op::kNormLanes, l = thread_index() % op::kNormLanes;
  const float* logits = a.logits + static_cast<std::ptrdiff_t>(block_index()) * a.n_vocab;
  // 1 maximum
  const float m = row_maximum(logits, a.n_vocab, shared);
  // 2 sum of exponentials
  float z = 0.0f;
  for (int first = 0; first < a.n_vocab; first += kGroups * op::kVocabChunk) {
    const int begin = first + group * op::kVocabChunk;
    const int end = min(begin + op::kVocabChunk, a.n_vocab);
    float p = 0.0f;
    for (int i = begin + l; i < end; i += op::kNormLanes)
      p = p + op::exp(load_readonly(logits + i) - m);
    store_shared(&shared->lanes[group][l], p);
    __syncthreads();
    if (l < kWarp) {
      const float chunk = norm_lanes_tree(shared->lanes[group]);
      if (l == 0) store_shared(&shared->chunks[group], chunk);
    }
    __syncthreads();
    // Nobody writes the chunks' sums again before the next barrier.
    for (int c = 0; c < kGroups && first + c * op::kVocabChunk < a.n_vocab; ++c)
      z = z + load_shared(&shared->chunks[c]);
  }
  // 3 logarithm
  if (thread_index() == 0) store_global(a.lse + block_index(), m + op::log(z));
}

}  // namespace

void logsumexp(const op::LogSumExpArgs& a, Stream& stream) {
  if (a.n_t == 0) return;
  launch(logsumexp_kernel, a.n_t, kThreads, sizeof(Shared), stream, a);
}

}  // namespace engine::ENGINE_DEVICE_NS
