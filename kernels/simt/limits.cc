#include "kernels/simt/limits.h"

#include <algorithm>

namespace engine::simt {
namespace {

constexpr std::size_t kKiB = 1024;

// architecture, threads a block, threads an SM, blocks an SM, shared memory a block, opted in, an SM, reserved,
// registers a thread, a block, an SM
constexpr Limits kLimits[] = {
    {70, 1024, 2048, 32, 48 * kKiB, 96 * kKiB, 96 * kKiB, 0, 255, 65536, 65536},
    {75, 1024, 1024, 16, 48 * kKiB, 64 * kKiB, 64 * kKiB, 0, 255, 65536, 65536},
    {80, 1024, 2048, 32, 48 * kKiB, 163 * kKiB, 164 * kKiB, kKiB, 255, 65536, 65536},
    {86, 1024, 1536, 16, 48 * kKiB, 99 * kKiB, 100 * kKiB, kKiB, 255, 65536, 65536},
    {89, 1024, 1536, 24, 48 * kKiB, 99 * kKiB, 100 * kKiB, kKiB, 255, 65536, 65536},
    {90, 1024, 2048, 32, 48 * kKiB, 227 * kKiB, 228 * kKiB, kKiB, 255, 65536, 65536},
    {100, 1024, 2048, 32, 48 * kKiB, 227 * kKiB, 228 * kKiB, kKiB, 255, 65536, 65536},
    {120, 1024, 1536, 24, 48 * kKiB, 99 * kKiB, 100 * kKiB, kKiB, 255, 65536, 65536},
};

}  // namespace

std::span<const Limits> all_limits() { return kLimits; }

const Limits* find_limits(int architecture) {
  const auto* found = std::ranges::find(kLimits, architecture, &Limits::architecture);
  return found == std::end(kLimits) ? nullptr : found;
}

int registers_of_block(int threads, int registers) {
  const int warps = (threads + 31) / 32;
  return warps * ((registers * 32 + 255) / 256 * 256);
}

int resident_blocks_per_sm(const Limits& limits, int threads, std::size_t shared_bytes,
                           int registers) {
  if (threads <= 0) return 0;
  const int warps = (threads + 31) / 32;
  int blocks = std::min(limits.blocks_per_sm, limits.threads_per_sm / (warps * 32));
  const std::size_t shared = shared_bytes + limits.shared_reserved_per_block;
  if (shared > 0) blocks = std::min(blocks, static_cast<int>(limits.shared_per_sm / shared));
  if (registers > 0)
    blocks = std::min(blocks, limits.registers_per_sm / registers_of_block(threads, registers));
  return blocks;
}

}  // namespace engine::simt
