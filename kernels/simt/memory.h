// The emulated device's memory: buffers with guard bytes, full of poison until somebody writes.
//
// Every access that a kernel makes through a checked function (thread.h) must lie wholly in one
// buffer. Plain pointer accesses are not seen; those that leave a buffer by less than kGuardBytes
// and write change the guard, which is looked at after every launch.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace engine::simt {

// A NaN when read as float, double or half; the two bytes differ, so that no fill with one byte looks alike.
inline constexpr std::uint32_t kPoison = 0xFFA5FFA5;
inline constexpr std::size_t kGuardBytes = 256;

void fill_poison(void* begin, std::size_t bytes);

// A piece of memory with a guard on either side.
class Guarded {
 public:
  Guarded() = default;
  explicit Guarded(std::size_t bytes);  // poisoned; throws std::bad_alloc
  ~Guarded();
  Guarded(Guarded&& other) noexcept { swap(other); }
  Guarded& operator=(Guarded&& other) noexcept {
    swap(other);
    return *this;
  }

  std::byte* begin() const { return begin_; }
  std::size_t bytes() const { return bytes_; }
  // The changed guard byte nearest to the memory, as an offset from begin(), and mends the guards.
  std::optional<std::ptrdiff_t> take_damage();

 private:
  void swap(Guarded& other) noexcept;
  std::byte* allocation_ = nullptr;
  std::byte* begin_ = nullptr;
  std::size_t bytes_ = 0;
};

struct Extent {
  std::uintptr_t begin;
  std::size_t bytes;
  bool may_hold_poison;  // false: a word that equals the poison is data
  Guarded memory;        // empty if somebody else owns it
};

class Memory {
 public:
  // 256-byte aligned, as cudaMalloc's. Throws std::bad_alloc.
  void* allocate(std::size_t bytes);
  void free(void* begin);
  // Lets kernels access memory that is not ours and holds no poison.
  void adopt(const void* begin, std::size_t bytes);
  // The buffer has been written as a whole.
  void mark_written(const void* begin);

  const Extent* find(std::uintptr_t address) const;
  std::string describe(std::uintptr_t address) const;  // "8 bytes behind a buffer of 64 bytes"
  // What a kernel wrote outside of a buffer; empty if nothing.
  std::string take_damage();

 private:
  std::map<std::uintptr_t, Extent> buffers_;
};

}  // namespace engine::simt
