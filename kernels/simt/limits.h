// What a launch may ask of each architecture, so that one that would fail on a card fails in the executor.
//
// Source: CUDA C++ Programming Guide, appendix "Compute Capabilities", table "Technical Specifications
// per Compute Capability", and, for shared memory per block, the sections of each architecture.
#pragma once

#include <cstddef>
#include <span>

namespace engine::simt {

struct Limits {
  int architecture;              // 75 for sm_75
  int threads_per_block;         // also the largest blockDim.x and .y; .z is at most 64
  int threads_per_sm;            // 32 times the resident warps
  int blocks_per_sm;             // resident
  std::size_t shared_per_block;  // bytes without asking, and after asking with cudaFuncSetAttribute
  std::size_t shared_per_block_opt_in;
  std::size_t shared_per_sm;
  std::size_t shared_reserved_per_block;  // taken by the system from shared_per_sm
  int registers_per_thread;
  int registers_per_block;
  int registers_per_sm;
};

// sm_70, 75, 80, 86, 89, 90, 100, 120.
std::span<const Limits> all_limits();
// Null when the table lacks the architecture.
const Limits* find_limits(int architecture);

// What a block's warps are given, in units of 256 each. registers: per thread, 0 if unknown.
int registers_of_block(int threads, int registers);

// Blocks of this shape that one SM holds at a time; 0 if it cannot hold one.
int resident_blocks_per_sm(const Limits& limits, int threads, std::size_t shared_bytes,
                           int registers);

}  // namespace engine::simt
