#include "engine/cuda_calls.h"

namespace engine::cuda {

const CudaCalls& cuda_calls() {
  static constexpr CudaCalls calls = {
      .driver_version = cudaDriverGetVersion,
      .runtime_version = cudaRuntimeGetVersion,
      .device_count = cudaGetDeviceCount,
      .device_properties = cudaGetDeviceProperties,
      .set_device = cudaSetDevice,
      .memory_info = cudaMemGetInfo,
      .allocate = cudaMalloc,
      .free = cudaFree,
      .allocate_host = cudaMallocHost,
      .free_host = cudaFreeHost,
      .create_stream = cudaStreamCreate,
      .destroy_stream = cudaStreamDestroy,
      .copy = cudaMemcpyAsync,
      .synchronize = cudaStreamSynchronize,
      .take_last_error = cudaGetLastError,
  };
  return calls;
}

}  // namespace engine::cuda
