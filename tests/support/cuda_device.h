// A card as the device of a test program, whose buffers then are in managed memory: at the same addresses for the
// card and for the host, which may touch it while no kernel runs.
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <stdexcept>
#include <string>

#include "kernels/cuda/stream.h"
#include "tests/support/buffer.h"

namespace engine::test {

inline std::string describe(int error) {
  const auto code = static_cast<cudaError_t>(error);
  return std::string(cudaGetErrorName(code)) + " (" + cudaGetErrorString(code) + ")";
}

class CudaMemory : public BufferMemory {
 public:
  // Throws where an error of an earlier test has taken the card away, so that the tests after it fail, too.
  void* allocate(std::size_t n_bytes) override {
    void* memory = nullptr;
    const cudaError_t error = cudaMallocManaged(&memory, n_bytes);
    if (error != cudaSuccess) throw std::runtime_error("managed memory: " + describe(error));
    return memory;
  }
  void deallocate(void* memory, std::size_t) override { cudaFree(memory); }
};

inline const bool kBuffersAreInCudaMemory = [] {
  static CudaMemory memory;
  buffer_memory() = &memory;
  return true;
}();

// A card interleaves its threads as it likes: only running again can show another order.
struct DeviceRun {
  const char* name;
  bool splits_rows;  // into calls of a few, too
};
inline constexpr DeviceRun kDeviceRuns[] = {
    {"run 1", true}, {"run 2", true}, {"run 3", true}, {"run 4", true}};

// Calls fn with a stream and waits for what it launches. False after an error, which fails the test.
template <class Fn>
bool on_device(const DeviceRun&, const Fn& fn) {
  cuda::Stream stream;
  fn(stream);
  stream.latch("a kernel", cudaDeviceSynchronize());
  if (stream.ok()) return true;
  ADD_FAILURE() << stream.failed_op() << ": " << describe(stream.error());
  cudaGetLastError();  // takes back an error of this launch alone
  return false;
}

}  // namespace engine::test
