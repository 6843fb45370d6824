// Positions in a launch, and reductions over a warp or a block in the orders of op/order.h.
#pragma once

#include "kernels/cuda/ptx.cuh"
#include "kernels/op/order.h"
#include "kernels/op/simd.h"

namespace engine::ENGINE_DEVICE_NS {

inline constexpr int kWarp = 32;

__device__ __forceinline__ int thread_index() { return static_cast<int>(threadIdx.x); }
__device__ __forceinline__ int block_index() { return static_cast<int>(blockIdx.x); }
__device__ __forceinline__ int lane_index() { return thread_index() % kWarp; }
__device__ __forceinline__ int warp_index() { return thread_index() / kWarp; }

// The halving tree over the warp's values, lane l holding v[l]; every lane gets it. With xor both
// partners add the same two numbers.
__device__ __forceinline__ float warp_tree(float v) {
  for (int h = kWarp / 2; h > 0; h /= 2) v = v + __shfl_xor_sync(kAllLanes, v, h);
  return v;
}

// The halving tree over kNormLanes floats in shared memory; every lane of the calling warp gets it.
__device__ __forceinline__ float norm_lanes_tree(const float* lanes) {
  static_assert(op::kNormLanes == 4 * kWarp);
  const int l = lane_index();
  const float even = load_shared(lanes + l) + load_shared(lanes + l + 2 * kWarp);
  const float odd = load_shared(lanes + l + kWarp) + load_shared(lanes + l + 3 * kWarp);
  return warp_tree(even + odd);
}

// The same over the values of a block of kNormLanes threads, thread l holding v[l]; every thread
// gets it. `lanes` [kNormLanes] in shared memory must not be in use by any thread.
__device__ __forceinline__ float norm_tree(float v, float* lanes) {
  store_shared(lanes + thread_index(), v);
  __syncthreads();
  return norm_lanes_tree(lanes);
}

// The largest of the warp's values, none of them NaN; every lane gets it.
__device__ __forceinline__ float warp_max(float v) {
  for (int h = kWarp / 2; h > 0; h /= 2) v = op::Scalar::max(__shfl_xor_sync(kAllLanes, v, h), v);
  return v;
}

}  // namespace engine::ENGINE_DEVICE_NS
