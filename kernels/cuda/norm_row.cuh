// RMSNorm of one row by a block of kNormLanes threads (op/rmsnorm.h), for the ops that contain one.
// Thread l has the elements l, l + kNormLanes, ….
#pragma once

#include "kernels/cuda/block.cuh"
#include "kernels/cuda/quantize_block.cuh"

namespace engine::ENGINE_DEVICE_NS {

// Thread l is lane l. `lanes` [kNormLanes] in shared memory must not be in use by any thread. Every
// thread gets the sum.
__device__ __forceinline__ float sum_of_squares(const float* x, int n_i, float* lanes) {
  float p = 0.0f;
  for (int i = thread_index(); i < n_i; i += op::kNormLanes) {
    const float v = load_global(x + i);
    p = op::Scalar::fma(v, v, p);
  }
  return norm_tree(p, lanes);
}

// r of a row whose squares sum to ss.
__device__ __forceinline__ float norm_scale(float ss, int n_i, float eps) {
  return 1.0f / ::sqrtf(ss / static_cast<float>(n_i) + eps);
}

// The row of y that belongs to the block, from (x * r) * w; n_i is a multiple of 32.
__device__ __forceinline__ void quantize_normed(const float* x, float r, const float* w, int n_i,
                                                const op::QuantizedRows& y) {
  const std::ptrdiff_t first = static_cast<std::ptrdiff_t>(block_index()) * (n_i / op::kBlock);
  for (int i = thread_index(); i < n_i; i += op::kNormLanes)
    quantize_block(load_global(x + i) * r * load_readonly(w + i), y, first + i / op::kBlock);
}

}  // namespace engine::ENGINE_DEVICE_NS
