// One thread per element.
#pragma once

#include <cstddef>

#include "kernels/cuda/block.cuh"
#include "kernels/cuda/launch.cuh"

namespace engine::ENGINE_DEVICE_NS {

inline constexpr int kElementThreads = 256;

// The thread's element; beyond the last one in the last block.
__device__ __forceinline__ std::ptrdiff_t element_index() {
  return static_cast<std::ptrdiff_t>(block_index()) * kElementThreads + thread_index();
}

inline Grid element_grid(std::ptrdiff_t n, const char* op = __builtin_FUNCTION(),
                         const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  return {static_cast<int>((n + kElementThreads - 1) / kElementThreads), op, file, line};
}

}  // namespace engine::ENGINE_DEVICE_NS
