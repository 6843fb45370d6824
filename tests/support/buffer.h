// Memory for kernels to read and write in tests and benchmarks.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <span>
#include <utility>

namespace engine::test {

// Where buffers get their memory.
class BufferMemory {
 public:
  virtual ~BufferMemory() = default;
  virtual void* allocate(std::size_t n_bytes) = 0;
  virtual void deallocate(void* memory, std::size_t n_bytes) = 0;
  // Kernels may touch these bytes of an allocation, until withdraw() or for good.
  virtual void expose(const void*, std::size_t) {}
  virtual void withdraw(const void*) {}
};

// The heap. Large arrays are put into huge pages where the system grants them, as the engine does
// with weights: a benchmark would otherwise measure page tables.
class HeapMemory : public BufferMemory {
 public:
  void* allocate(std::size_t n_bytes) override {
    void* memory = ::operator new(n_bytes, alignment(n_bytes));
    if (n_bytes >= kHugePage) ::madvise(memory, n_bytes, MADV_HUGEPAGE);
    return memory;
  }
  void deallocate(void* memory, std::size_t n_bytes) override {
    ::operator delete(memory, alignment(n_bytes));
  }

 private:
  static constexpr std::size_t kHugePage = std::size_t{2} << 20;
  static std::align_val_t alignment(std::size_t n_bytes) {
    return std::align_val_t{n_bytes >= kHugePage ? kHugePage : alignof(std::max_align_t)};
  }
};

// What buffers made from now on are of; the heap unless a program of device tests sets it.
inline BufferMemory*& buffer_memory() {
  static HeapMemory heap;
  static BufferMemory* current = &heap;
  return current;
}

// n elements that start `misalign` elements past a 64-byte boundary, between two guards. Everything
// starts out as 0xFF bytes, which are NaN as floats and as fp16: an element that a kernel forgot to
// write, or one it read beyond the array, shows up in its result. guards_intact() tells whether it
// wrote beyond.
template <class T>
class Buffer {
 public:
  explicit Buffer(std::size_t n, std::size_t misalign = 0)
      : memory_(buffer_memory()),
        n_bytes_((n + misalign) * sizeof(T) + kAlignment + 2 * kGuard),
        storage_(memory_->allocate(n_bytes_)),
        size_(n),
        misalign_(misalign) {
    std::memset(storage_, kPoison, n_bytes_);
    const auto start = reinterpret_cast<std::uintptr_t>(storage_) + kGuard;
    const std::uintptr_t aligned = (start + kAlignment - 1) / kAlignment * kAlignment;
    data_ = reinterpret_cast<T*>(aligned) + misalign;
    memory_->expose(data_, n * sizeof(T));
  }
  ~Buffer() {
    if (storage_ == nullptr) return;
    memory_->withdraw(data_);
    memory_->deallocate(storage_, n_bytes_);
  }
  Buffer(const Buffer& other) : Buffer(other.size_, other.misalign_) {
    std::copy(other.begin(), other.end(), begin());
  }
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer other) noexcept {
    swap(other);
    return *this;
  }

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

  void swap(Buffer& other) noexcept {
    std::swap(memory_, other.memory_);
    std::swap(n_bytes_, other.n_bytes_);
    std::swap(storage_, other.storage_);
    std::swap(size_, other.size_);
    std::swap(misalign_, other.misalign_);
    std::swap(data_, other.data_);
  }

  BufferMemory* memory_ = nullptr;
  std::size_t n_bytes_ = 0;
  void* storage_ = nullptr;
  std::size_t size_ = 0, misalign_ = 0;
  T* data_ = nullptr;
};

}  // namespace engine::test
