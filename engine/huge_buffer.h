// A large zeroed block of memory in huge pages where the system grants them: weights are streamed
// once per token, and fewer TLB misses are worth up to a fifth of the bandwidth.
#pragma once

#include <cstddef>
#include <utility>

#include "gguf/result.h"

namespace engine {

class HugeBuffer {
 public:
  HugeBuffer() noexcept = default;
  HugeBuffer(HugeBuffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  HugeBuffer& operator=(HugeBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~HugeBuffer();

  // Errors: out_of_memory with the bytes asked for.
  static Result<HugeBuffer> create(std::size_t bytes);

  std::byte* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return size_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace engine
