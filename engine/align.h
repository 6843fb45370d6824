// Where arrays that share a piece of memory begin.
#pragma once

#include <cstddef>

namespace engine {

// What device allocations have, and enough for any vector.
inline constexpr std::size_t kDeviceAlignment = 256;

// The least multiple of `alignment` that is not below n.
constexpr std::size_t align_up(std::size_t n, std::size_t alignment) {
  return (n + alignment - 1) / alignment * alignment;
}

constexpr std::size_t align_down(std::size_t n, std::size_t alignment) {
  return n / alignment * alignment;
}

}  // namespace engine
