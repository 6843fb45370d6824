// Arrays one after the other in a piece of memory.
#pragma once

#include <cstddef>

#include "engine/align.h"

namespace engine {

class Placer {
 public:
  // `memory` is aligned to kDeviceAlignment, and stays untouched; null: only the bytes are counted.
  explicit Placer(std::byte* memory) : memory_(memory) {}

  // n elements, aligned to kDeviceAlignment.
  template <class T>
  T* take(std::size_t n) {
    std::byte* const at = memory_ == nullptr ? nullptr : memory_ + n_bytes_;
    n_bytes_ += align_up(n * sizeof(T), kDeviceAlignment);
    return reinterpret_cast<T*>(at);
  }
  std::size_t n_bytes() const { return n_bytes_; }

 private:
  std::byte* memory_;
  std::size_t n_bytes_ = 0;
};

}  // namespace engine
