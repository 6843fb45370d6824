// What a running CUDA thread sees of the executor: who it is, how it waits, how it touches memory.
// simt.h and kernels/cuda/ptx.cuh give these functions their CUDA names; kernels call those.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "kernels/simt/executor.h"
#include "kernels/simt/fiber.h"

namespace engine::simt {

struct Block;
struct Warp;

struct Range {
  std::uintptr_t begin = ~std::uintptr_t{0};
  std::size_t bytes =
      16;  // at least 16, so that an access's size can be subtracted; contains nothing

  bool contains(std::uintptr_t address, std::size_t n) const {
    return address - begin <= bytes - n;
  }
};

// An asynchronous copy that has been issued and not waited for. Nothing of it has happened yet.
struct PendingCopy {
  void* destination;
  const void* source;  // null: zeros
  std::size_t bytes;
};

// `index`, `block_index`, `block_shape` and `grid_shape` are CUDA's built-in variables.
struct Thread {
  uint3 index;
  uint3 block_index;
  dim3 block_shape, grid_shape;
  Range shared;  // the block's; empty when statistics are on, so that every access is seen
  Block* block;
  Warp* warp;
  unsigned lane;

  Fiber fiber;
  const char* waits_for;  // "__syncthreads"; null while it can run
  Where where;            // of the latest wait
  unsigned n_barriers;    // __syncthreads passed
  const void* in;         // what it brings to a collective, and where it wants the result
  void* out;
  std::vector<PendingCopy> copies;
  std::vector<std::size_t> groups;  // copies in each committed group, oldest first
};

// Of the calling OS thread; null outside of kernels.
inline constinit thread_local Thread* current = nullptr;

// Buffers that were accessed lately, by page.
inline constexpr std::size_t kRanges = 256;
inline constinit thread_local std::array<Range, kRanges> recent_ranges{};

// dp4a, always counted since that is cheaper than to ask. ThreadSanitizer, for which kernels' threads are threads,
// does not look.
inline constinit thread_local std::uint64_t n_dot_products = 0;
__attribute__((no_sanitize("thread"))) inline void count_dot_product() { ++n_dot_products; }

// Ends the launch, by an exception that unwinds the calling thread.
[[noreturn]] void fail(Fault fault, const std::string& what, Where where);

// --- waiting ------------------------------------------------------------------------------------

// Lane values in, lane values out: [32] pointers, of which those in the mask may be used.
using Collective = void (*)(const void* const* in, void* const* out, unsigned mask);

// Waits until every lane of the mask has come with the same mask, name and place; the last one computes.
void meet_warp(unsigned mask, const char* name, const void* in, void* out, Collective compute,
               Where where);
// The same, and orders memory, as __syncwarp.
void sync_warp(unsigned mask, Where where);

// How many of the block's threads came with a value that is not 0, and how many came.
struct Votes {
  int n_true, n;
};
Votes sync_block(const char* name, bool value, Where where);

// id 1 to 15; n_threads, a multiple of 32, arrive or wait before those that wait go on.
void sync_named(int id, int n_threads, Where where);
void arrive_named(int id, int n_threads, Where where);

// Lets other threads run. Every loop that waits for another thread's store must call it.
void yield(Where where);

void count_grid_barrier(Where where);  // fails unless the launch is cooperative

// --- memory -------------------------------------------------------------------------------------

void check_global_slowly(std::uintptr_t address, std::size_t bytes, Direction direction,
                         Where where);
void check_shared_slowly(std::uintptr_t address, std::size_t bytes, Direction direction,
                         Where where);
void report_poison(const void* address, Space space, Where where);

inline void check_global(const void* p, std::size_t bytes, Direction direction, Where where) {
  const auto address = reinterpret_cast<std::uintptr_t>(p);
  const Range& range = recent_ranges[address >> 12 & (kRanges - 1)];
  if (!range.contains(address, bytes) || (address & (bytes - 1)) != 0) [[unlikely]]
    check_global_slowly(address, bytes, direction, where);
}

inline void check_shared(const void* p, std::size_t bytes, Direction direction, Where where) {
  const auto address = reinterpret_cast<std::uintptr_t>(p);
  if (!current->shared.contains(address, bytes) || (address & (bytes - 1)) != 0) [[unlikely]]
    check_shared_slowly(address, bytes, direction, where);
}

template <class T>
bool has_poison(const T& value) {
  if constexpr (sizeof(T) % 4 == 0) {
    std::uint32_t words[sizeof(T) / 4];
    std::memcpy(words, &value, sizeof(T));
    bool found = false;
    for (const std::uint32_t word : words) found |= word == kPoison;
    return found;
  } else {
    return false;
  }
}

template <class T>
inline constexpr bool is_accessible = sizeof(T) <= 16 && (sizeof(T) & (sizeof(T) - 1)) == 0;

template <Space space, class T>
T load(const T* p, Where where) {
  static_assert(is_accessible<T>, "a lane loads 1, 2, 4, 8 or 16 bytes");
  space == Space::global ? check_global(p, sizeof(T), Direction::load, where)
                         : check_shared(p, sizeof(T), Direction::load, where);
  const T value = *p;
  if (has_poison(value)) [[unlikely]]
    report_poison(p, space, where);
  return value;
}

template <Space space, class T>
void store(T* p, const T& value, Where where) {
  static_assert(is_accessible<T>, "a lane stores 1, 2, 4, 8 or 16 bytes");
  space == Space::global ? check_global(p, sizeof(T), Direction::store, where)
                         : check_shared(p, sizeof(T), Direction::store, where);
  *p = value;
}

// Bounds and alignment of an atomic, in either space; counts it.
void check_atomic(const void* p, std::size_t bytes, Where where);
// The same without counting, for loads and stores that threads wait with: their number is up to the schedule.
void check_flag(const void* p, std::size_t bytes, Where where);

// The block's dynamic shared memory.
void* shared_memory();

// The destination holds poison until the thread waits for the copy of 4, 8 or 16 bytes. A null source
// is one of zeros.
void copy_async(void* destination, const void* source, std::size_t bytes, Where where);
void commit_copies();
void wait_copies(std::size_t n_groups_left);  // performs all but the newest committed groups

}  // namespace engine::simt
