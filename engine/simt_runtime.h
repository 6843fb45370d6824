// The CUDA backend's runtime without a card: memory, copies and launches of the executor in kernels/simt.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/kv_memory.h"
#include "gguf/result.h"
#include "kernels/simt/executor.h"

namespace engine::simt {

struct RuntimeOptions {
  Options device = {};
  std::uint64_t memory_bytes = std::uint64_t{8} << 30;  // that the device has
};

// Everything happens within jobs of one pool, but for the freeing of memory. Errors of launches are kept
// until the next wait, which reports the first.
class Runtime : public KvMemory {
 public:
  explicit Runtime(const RuntimeOptions& options);

  std::string name() const;  // "simt sm_86"
  Stream& stream() { return stream_; }

  // Device memory, aligned to 256. Errors: out_of_memory with the bytes asked for, free, and in all.
  Result<Slab> allocate(std::size_t n) override;
  // In the order of launches. `from` may be changed on return.
  void upload(std::byte* to, const void* from, std::size_t n);
  // Errors: device, with the first launch that failed since the last wait.
  Status wait();
  // The same before a copy to the host.
  Status download(void* to, const void* from, std::size_t n);

 private:
  struct Freed {
    std::byte* memory;
    std::size_t n;
  };
  void collect();

  std::uint64_t capacity_, used_ = 0;
  Device device_;
  Stream stream_;
  std::size_t n_slabs_ = 0;  // allocated and not yet given back
  std::mutex mutex_;
  std::vector<Freed>
      freed_;  // on any thread, while kernels may run: given back by the next allocate()
};

}  // namespace engine::simt
