// Pairs of neighbouring elements of the cache, widened.
#pragma once

#include <cstdint>

#include "gguf/types.h"
#include "kernels/cuda/ptx.cuh"

#if defined(__CUDACC__)
#include <cuda_fp16.h>
#endif

namespace engine::ENGINE_DEVICE_NS {

// Exact. A card has an instruction for it.
__device__ __forceinline__ float widen(std::uint16_t half) {
#if defined(__CUDACC__)
  return __half2float(__ushort_as_half(half));
#else
  return gguf::f32_from_f16(half);
#endif
}

__device__ __forceinline__ float2 load_kv_pair(const std::uint16_t* p) {
  const auto pair = load_readonly(reinterpret_cast<const unsigned*>(p));
  return {widen(static_cast<std::uint16_t>(pair)), widen(static_cast<std::uint16_t>(pair >> 16))};
}
__device__ __forceinline__ float2 load_kv_pair(const float* p) {
  return load_readonly(reinterpret_cast<const float2*>(p));
}

}  // namespace engine::ENGINE_DEVICE_NS
