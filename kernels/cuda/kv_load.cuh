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

// Two dims of a value.
__device__ __forceinline__ float2 load_values(const std::uint16_t* p) {
  const auto pair = load_readonly(reinterpret_cast<const unsigned*>(p));
  return {widen(static_cast<std::uint16_t>(pair)), widen(static_cast<std::uint16_t>(pair >> 16))};
}
__device__ __forceinline__ float2 load_values(const float* p) {
  return load_readonly(reinterpret_cast<const float2*>(p));
}

// A dim of two neighbouring keys, of which only those that somebody sees count: the other may never
// have been written.
__device__ __forceinline__ float2 load_keys(const std::uint16_t* p, bool, bool) {
  return load_values(p);
}
__device__ __forceinline__ float2 load_keys(const float* p, bool first, bool second) {
  return {first ? load_readonly(p) : 0.0f, second ? load_readonly(p + 1) : 0.0f};
}

}  // namespace engine::ENGINE_DEVICE_NS
