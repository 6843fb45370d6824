// How threads touch memory.
#include <numeric>

#include "kernels/simt/state.h"

namespace engine::simt {

namespace {

std::string access_name(std::size_t bytes, Direction direction, const char* space) {
  return std::string(direction == Direction::load ? "a load of " : "a store of ") +
         std::to_string(bytes) + " bytes of " + space + " memory";
}

void check_alignment(std::uintptr_t address, std::size_t bytes, Direction direction,
                     const char* space, Where where) {
  if (address % bytes != 0)
    fail(Fault::misaligned,
         access_name(bytes, direction, space) + " whose address is " +
             std::to_string(address % bytes) + " above a multiple of " + std::to_string(bytes),
         where);
}

bool in_shared(std::uintptr_t address, std::size_t bytes) {
  const Guarded& shared = current->block->shared;
  const auto begin = reinterpret_cast<std::uintptr_t>(shared.begin());
  return address >= begin && address + bytes <= begin + shared.bytes();
}

void count(Space space, Direction direction, std::uintptr_t address, std::size_t bytes, Where where,
           const Extent* buffer) {
  if (executor->meter() == nullptr) return;
  const Warp& warp = *current->warp;
  executor->meter()->access(warp.index, current->lane, warp.live, space, direction, address, bytes,
                            where, buffer != nullptr ? buffer->begin : 0,
                            buffer != nullptr ? buffer->bytes : 0);
}

}  // namespace

void check_global_slowly(std::uintptr_t address, std::size_t bytes, Direction direction,
                         Where where) {
  if (current == nullptr) return;  // a device function called by the host
  const Unwatched unwatched;
  const Memory& memory = executor->device().memory;
  const Extent* buffer = memory.find(address);
  if (buffer == nullptr || address + bytes > buffer->begin + buffer->bytes)
    fail(Fault::out_of_bounds,
         access_name(bytes, direction, "global") + (in_shared(address, 1)
                                                        ? " in the block's shared memory"
                                                        : " " + memory.describe(address)),
         where);
  check_alignment(address, bytes, direction, "global", where);
  if (executor->meter() != nullptr)
    count(Space::global, direction, address, bytes, where, buffer);
  else if (buffer->bytes >= 16)
    recent_ranges[address >> 12 & (kRanges - 1)] = {buffer->begin, buffer->bytes};
}

void check_shared_slowly(std::uintptr_t address, std::size_t bytes, Direction direction,
                         Where where) {
  const Unwatched unwatched;
  if (!in_shared(address, bytes)) {
    const Guarded& shared = current->block->shared;
    const auto offset =
        static_cast<std::ptrdiff_t>(address - reinterpret_cast<std::uintptr_t>(shared.begin()));
    fail(Fault::out_of_bounds,
         access_name(bytes, direction, "shared") + " at offset " + std::to_string(offset) + " of " +
             std::to_string(shared.bytes()),
         where);
  }
  check_alignment(address, bytes, direction, "shared", where);
  count(Space::shared, direction, address, bytes, where, nullptr);
}

void report_poison(const void* address, Space space, Where where) {
  if (current == nullptr || !executor->device().options.report_poison) return;
  const Unwatched unwatched;
  if (space == Space::global) {
    const Extent* buffer =
        executor->device().memory.find(reinterpret_cast<std::uintptr_t>(address));
    if (buffer == nullptr || !buffer->may_hold_poison) return;
    fail(Fault::poison,
         "a load of global memory that nobody wrote, " +
             executor->device().memory.describe(reinterpret_cast<std::uintptr_t>(address)),
         where);
  }
  const auto offset = static_cast<const std::byte*>(address) - current->block->shared.begin();
  fail(Fault::poison,
       "a load of shared memory that nobody wrote, or of an asynchronous copy that nobody waited "
       "for, at offset " +
           std::to_string(offset),
       where);
}

void check_flag(const void* p, std::size_t bytes, Where where) {
  const Unwatched unwatched;
  const auto address = reinterpret_cast<std::uintptr_t>(p);
  if (in_shared(address, bytes)) {
    check_alignment(address, bytes, Direction::store, "shared", where);
  } else {
    const Extent* buffer = executor->device().memory.find(address);
    if (buffer == nullptr || address + bytes > buffer->begin + buffer->bytes)
      fail(Fault::out_of_bounds, "an atomic " + executor->device().memory.describe(address), where);
    check_alignment(address, bytes, Direction::store, "global", where);
  }
}

void check_atomic(const void* p, std::size_t bytes, Where where) {
  check_flag(p, bytes, where);
  const Unwatched unwatched;
  if (executor->statistics() != nullptr) ++executor->statistics()->atomics;
}

void* shared_memory() { return current->block->shared.begin(); }

void copy_async(void* destination, const void* source, std::size_t bytes, Where where) {
  if (source != nullptr) check_global(source, bytes, Direction::load, where);
  check_shared(destination, bytes, Direction::store, where);
  fill_poison(destination, bytes);
  const Unwatched unwatched;
  current->copies.push_back({destination, source, bytes});
  if (executor->statistics() != nullptr) ++executor->statistics()->async_copies;
}

void commit_copies() {
  const Unwatched unwatched;
  Thread& self = *current;
  const std::size_t committed =
      std::accumulate(self.groups.begin(), self.groups.end(), std::size_t{0});
  self.groups.push_back(self.copies.size() - committed);
}

void wait_copies(std::size_t n_groups_left) {
  Thread& self = *current;
  if (self.groups.size() <= n_groups_left) return;
  const auto n_groups = static_cast<std::ptrdiff_t>(self.groups.size() - n_groups_left);
  const auto n = static_cast<std::ptrdiff_t>(
      std::accumulate(self.groups.begin(), self.groups.begin() + n_groups, std::size_t{0}));
  for (auto copy = self.copies.begin(); copy != self.copies.begin() + n; ++copy) {
    if (copy->source != nullptr)
      std::memcpy(copy->destination, copy->source, copy->bytes);
    else
      std::memset(copy->destination, 0, copy->bytes);
  }
  self.copies.erase(self.copies.begin(), self.copies.begin() + n);
  self.groups.erase(self.groups.begin(), self.groups.begin() + n_groups);
}

}  // namespace engine::simt
