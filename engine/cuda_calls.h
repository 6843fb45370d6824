// The CUDA runtime's functions that the engine calls, as a table, so that tests can put others in their
// place. Kernels are launched by kernels/cuda/launch.cuh.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

namespace engine::cuda {

struct CudaCalls {
  cudaError_t (*driver_version)(int*);
  cudaError_t (*runtime_version)(int*);
  cudaError_t (*device_count)(int*);
  cudaError_t (*device_properties)(cudaDeviceProp*, int device);
  cudaError_t (*set_device)(int device);
  cudaError_t (*memory_info)(std::size_t* free, std::size_t* total);
  cudaError_t (*allocate)(void**, std::size_t);
  cudaError_t (*free)(void*);
  cudaError_t (*allocate_host)(void**, std::size_t);
  cudaError_t (*free_host)(void*);
  cudaError_t (*create_stream)(cudaStream_t*);
  cudaError_t (*destroy_stream)(cudaStream_t);
  cudaError_t (*copy)(void* to, const void* from, std::size_t, cudaMemcpyKind, cudaStream_t);
  cudaError_t (*synchronize)(cudaStream_t);
  cudaError_t (*take_last_error)();  // forgets an error that is not sticky
};

// The runtime library's own.
const CudaCalls& cuda_calls();

}  // namespace engine::cuda
