#include "kernels/simt/memory.h"

#include <algorithm>
#include <new>

#include "kernels/simt/fiber.h"

namespace engine::simt {
namespace {

// Buffers share no page, which is what the ranges of thread.h are found by.
constexpr std::align_val_t kPage{4096};

#if defined(ENGINE_SIMT_ASAN)
// AddressSanitizer watches the guards itself, and reads too.
void watch(std::byte* guard, std::size_t bytes) { __asan_poison_memory_region(guard, bytes); }
void unwatch(std::byte* guard, std::size_t bytes) { __asan_unpoison_memory_region(guard, bytes); }
#else
constexpr std::byte kGuard{0xC7};
void watch(std::byte* guard, std::size_t bytes) { std::fill_n(guard, bytes, kGuard); }
void unwatch(std::byte*, std::size_t) {}
#endif

std::string count(std::uintptr_t n) { return std::to_string(n) + (n == 1 ? " byte" : " bytes"); }

std::uintptr_t address_of(const void* p) { return reinterpret_cast<std::uintptr_t>(p); }

}  // namespace

void fill_poison(void* begin, std::size_t bytes) {
  auto* out = static_cast<unsigned char*>(begin);
  std::size_t i = 0;
  for (; i + 4 <= bytes; i += 4) __builtin_memcpy(out + i, &kPoison, 4);
  if (i < bytes) __builtin_memcpy(out + i, &kPoison, bytes - i);
}

Guarded::Guarded(std::size_t bytes) : bytes_(bytes) {
  allocation_ = static_cast<std::byte*>(::operator new(bytes + 2 * kGuardBytes, kPage));
  begin_ = allocation_ + kGuardBytes;
  fill_poison(begin_, bytes_);
  watch(allocation_, kGuardBytes);
  watch(begin_ + bytes_, kGuardBytes);
}

Guarded::~Guarded() {
  if (allocation_ == nullptr) return;
  unwatch(allocation_, bytes_ + 2 * kGuardBytes);
  ::operator delete(allocation_, kPage);
}

void Guarded::swap(Guarded& other) noexcept {
  std::swap(allocation_, other.allocation_);
  std::swap(begin_, other.begin_);
  std::swap(bytes_, other.bytes_);
}

std::optional<std::ptrdiff_t> Guarded::take_damage() {
#if !defined(ENGINE_SIMT_ASAN)
  const auto changed = [](std::byte b) { return b != kGuard; };
  std::byte* const end = begin_ + bytes_;
  std::byte* damage = std::find_if(end, end + kGuardBytes, changed);
  if (damage == end + kGuardBytes) {
    damage = begin_;
    while (damage > allocation_ && !changed(damage[-1])) --damage;
    if (damage == allocation_) return std::nullopt;
    --damage;
  }
  watch(allocation_, kGuardBytes);
  watch(end, kGuardBytes);
  return damage - begin_;
#else
  return std::nullopt;
#endif
}

void* Memory::allocate(std::size_t bytes) {
  Guarded memory(std::max<std::size_t>(bytes, 1));
  std::byte* const begin = memory.begin();
  buffers_.emplace(address_of(begin), Extent{address_of(begin), bytes, true, std::move(memory)});
  return begin;
}

void Memory::free(void* begin) { buffers_.erase(address_of(begin)); }

void Memory::adopt(const void* begin, std::size_t bytes) {
  buffers_.insert_or_assign(address_of(begin), Extent{address_of(begin), bytes, false, Guarded()});
}

void Memory::mark_written(const void* begin) {
  if (const auto found = buffers_.find(address_of(begin)); found != buffers_.end())
    found->second.may_hold_poison = false;
}

const Extent* Memory::find(std::uintptr_t address) const {
  auto next = buffers_.upper_bound(address);
  if (next == buffers_.begin()) return nullptr;
  const Extent& buffer = std::prev(next)->second;
  return address - buffer.begin < buffer.bytes ? &buffer : nullptr;
}

std::string Memory::describe(std::uintptr_t address) const {
  const auto next = buffers_.upper_bound(address);
  if (next != buffers_.begin()) {
    const Extent& before = std::prev(next)->second;
    const std::uintptr_t offset = address - before.begin;
    if (offset < before.bytes)
      return "at offset " + std::to_string(offset) + " of a buffer of " + count(before.bytes);
    if (next == buffers_.end() || offset - before.bytes < next->first - address)
      return count(offset - before.bytes) + " behind a buffer of " + count(before.bytes);
  }
  if (next == buffers_.end()) return "where no buffer is";
  return count(next->first - address) + " in front of a buffer of " + count(next->second.bytes);
}

std::string Memory::take_damage() {
  std::string first;
  for (auto& [begin, buffer] : buffers_) {
    if (buffer.memory.begin() == nullptr) continue;
    const auto offset = buffer.memory.take_damage();
    if (offset && first.empty())
      first = "a plain write " + describe(begin + static_cast<std::uintptr_t>(*offset));
  }
  return first;
}

}  // namespace engine::simt
