#include "tests/support/heap_meter.h"

#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <limits>
#include <new>

namespace {

constexpr std::int64_t kNeverFails = std::numeric_limits<std::int64_t>::max();

std::atomic<std::size_t> held_bytes = 0;
std::atomic<std::size_t> peak_bytes = 0;
std::atomic<std::int64_t> n_until_failure = kNeverFails;
std::atomic<bool> failed = false;

void* allocate(std::size_t n_bytes) noexcept {
  if (n_until_failure != kNeverFails && n_until_failure-- <= 0) {
    failed = true;
    return nullptr;
  }
  void* memory = std::malloc(std::max<std::size_t>(n_bytes, 1));
  if (memory == nullptr) return nullptr;
  const std::size_t held = held_bytes += malloc_usable_size(memory);
  if (held > peak_bytes) peak_bytes = held;
  return memory;
}

void release(void* memory) noexcept {
  if (memory == nullptr) return;
  held_bytes -= malloc_usable_size(memory);
  std::free(memory);
}

}  // namespace

void* operator new(std::size_t n_bytes) {
  void* memory = allocate(n_bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void* operator new[](std::size_t n_bytes) { return operator new(n_bytes); }
void* operator new(std::size_t n_bytes, const std::nothrow_t&) noexcept {
  return allocate(n_bytes);
}
void* operator new[](std::size_t n_bytes, const std::nothrow_t&) noexcept {
  return allocate(n_bytes);
}
void operator delete(void* memory) noexcept { release(memory); }
void operator delete[](void* memory) noexcept { release(memory); }
void operator delete(void* memory, std::size_t) noexcept { release(memory); }
void operator delete[](void* memory, std::size_t) noexcept { release(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { release(memory); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept { release(memory); }

namespace engine::test {

HeapMeter::HeapMeter() : start_bytes_(held_bytes) { ::peak_bytes = start_bytes_; }
std::size_t HeapMeter::peak_bytes() const { return ::peak_bytes - start_bytes_; }

FailingHeap::FailingHeap(std::int64_t n) {
  failed = false;
  n_until_failure = n;
}
FailingHeap::~FailingHeap() { n_until_failure = kNeverFails; }
bool FailingHeap::has_failed() const { return failed; }

}  // namespace engine::test
