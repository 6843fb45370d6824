// The CUDA backend's runtime without a card: memory, copies and launches of the executor in kernels/simt.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "engine/slab.h"
#include "gguf/result.h"
#include "kernels/simt/executor.h"

namespace engine::simt {

struct RuntimeOptions {
  Options device = {};
  std::uint64_t memory_bytes = std::uint64_t{8} << 30;  // that the device has
};

// Everything happens within jobs of one pool. Errors of launches are kept until the next wait, which
// reports the first.
class Runtime {
 public:
  explicit Runtime(const RuntimeOptions& options);

  std::string name() const;  // "simt sm_86"
  Stream& stream() { return stream_; }

  // Device memory, aligned to 256. Errors: out_of_memory with the bytes asked for, free, and in all.
  Result<Slab> allocate(std::size_t n);
  std::size_t free_bytes() const { return static_cast<std::size_t>(capacity_ - used_); }
  Result<Slab> allocate_host(std::size_t n);  // aligned to 256
  // In the order of launches. `from` may be changed on return.
  void upload(std::byte* to, const void* from, std::size_t n);
  void send(std::byte* to, const void* from, std::size_t n) { upload(to, from, n); }
  // Within device memory, in the order of launches.
  void copy(void* to, const void* from, std::size_t n);
  // Errors: device, with the first launch that failed since the last wait.
  Status wait();
  // The same before a copy to the host.
  Status download(void* to, const void* from, std::size_t n);

 private:
  std::uint64_t capacity_, used_ = 0;
  Device device_;
  Stream stream_;
};

}  // namespace engine::simt
