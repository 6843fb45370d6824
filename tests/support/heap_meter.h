// Watches operator new of a test program: how much is held at once, and what happens when it fails.
// Linking this file replaces the global operators. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>

namespace engine::test {

// The most that is held at once from construction on, beyond what was held then.
class HeapMeter {
 public:
  HeapMeter();
  std::size_t peak_bytes() const;

 private:
  std::size_t start_bytes_;
};

// While it lives, allocation number n (0 is the next) and all later ones throw std::bad_alloc.
class FailingHeap {
 public:
  explicit FailingHeap(std::int64_t n);
  ~FailingHeap();
  FailingHeap(const FailingHeap&) = delete;
  FailingHeap& operator=(const FailingHeap&) = delete;
  bool has_failed() const;
};

}  // namespace engine::test
