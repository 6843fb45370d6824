// Memory for kernels to read and write in tests and benchmarks.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <span>
#include <vector>

namespace engine::test {

// Puts large arrays into huge pages where the system grants them, as the engine does with weights:
// a benchmark would otherwise measure page tables.
template <class T>
struct HugePageAllocator {
  using value_type = T;
  HugePageAllocator() = default;
  template <class U>
  HugePageAllocator(const HugePageAllocator<U>&) {}

  T* allocate(std::size_t n) {
    void* memory = ::operator new(n * sizeof(T), alignment(n));
    if (is_large(n)) ::madvise(memory, n * sizeof(T), MADV_HUGEPAGE);
    return static_cast<T*>(memory);
  }
  void deallocate(T* memory, std::size_t n) { ::operator delete(memory, alignment(n)); }
  bool operator==(const HugePageAllocator&) const = default;

 private:
  static constexpr std::size_t kHugePage = std::size_t{2} << 20;
  static bool is_large(std::size_t n) { return n * sizeof(T) >= kHugePage; }
  static std::align_val_t alignment(std::size_t n) {
    return std::align_val_t{is_large(n) ? kHugePage : alignof(std::max_align_t)};
  }
};

// n elements that start `misalign` elements past a 64-byte boundary, between two guards. Everything
// starts out as 0xFF bytes, which are NaN as floats and as fp16: an element that a kernel forgot to
// write, or one it read beyond the array, shows up in its result. guards_intact() tells whether it
// wrote beyond.
template <class T>
class Buffer {
 public:
  explicit Buffer(std::size_t n, std::size_t misalign = 0)
      : storage_(n * sizeof(T) + misalign * sizeof(T) + kAlignment + 2 * kGuard, kPoison),
        size_(n),
        misalign_(misalign) {
    const auto start = reinterpret_cast<std::uintptr_t>(storage_.data()) + kGuard;
    const std::uintptr_t aligned = (start + kAlignment - 1) / kAlignment * kAlignment;
    data_ = reinterpret_cast<T*>(aligned) + misalign;
  }
  Buffer(const Buffer& other) : Buffer(other.size_, other.misalign_) {
    std::copy(other.begin(), other.end(), begin());
  }
  Buffer(Buffer&&) = default;  // moving keeps the storage, hence data_
  Buffer& operator=(Buffer&&) = default;

  T* data() { return data_; }
  const T* data() const { return data_; }
  std::size_t size() const { return size_; }
  T* begin() { return data_; }
  T* end() { return data_ + size_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }
  T& operator[](std::size_t i) { return data_[i]; }
  const T& operator[](std::size_t i) const { return data_[i]; }
  std::span<const T> span() const { return {data_, size_}; }

  void poison() { std::memset(static_cast<void*>(data_), kPoison, size_ * sizeof(T)); }

  bool guards_intact() const {
    const auto* first = reinterpret_cast<const unsigned char*>(data_);
    const auto* last = reinterpret_cast<const unsigned char*>(data_ + size_);
    const auto is_poison = [](unsigned char byte) { return byte == kPoison; };
    return std::all_of(first - kGuard, first, is_poison) &&
           std::all_of(last, last + kGuard, is_poison);
  }

 private:
  static constexpr std::size_t kAlignment = 64, kGuard = 64;
  static constexpr unsigned char kPoison = 0xFF;
  std::vector<unsigned char, HugePageAllocator<unsigned char>> storage_;
  std::size_t size_, misalign_;
  T* data_;
};

}  // namespace engine::test
