// The end of a block that has seen the logits of a span.
#pragma once

#include "kernels/cuda/block.cuh"
#include "kernels/op/top_logits.h"

namespace engine::ENGINE_DEVICE_NS {

// *to = the best of all threads' ranks, and whether any has seen a bad logit. `warps` [warps of the block] in
// shared memory must not be in use by any thread.
__device__ __forceinline__ void store_span(std::uint64_t rank, bool is_bad, std::uint64_t* warps,
                                           op::LogitSpan* to) {
  for (int h = kWarp / 2; h > 0; h /= 2) {
    const std::uint64_t other = __shfl_xor_sync(kAllLanes, rank, h);
    rank = other > rank ? other : rank;
  }
  if (lane_index() == 0) store_shared(warps + warp_index(), rank);
  const int any_is_bad = __syncthreads_or(is_bad ? 1 : 0);
  if (thread_index() != 0) return;
  for (int warp = 1; warp < static_cast<int>(blockDim.x) / kWarp; ++warp) {
    const std::uint64_t other = load_shared(warps + warp);
    rank = other > rank ? other : rank;
  }
  store_global(&to->best, rank);
  store_global(&to->non_finite, any_is_bad != 0 ? 1u : 0u);
}

}  // namespace engine::ENGINE_DEVICE_NS
