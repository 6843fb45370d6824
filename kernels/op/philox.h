// Philox4x32-10, the counter-based random generator of Salmon, Moraes, Dror and Shaw, "Parallel
// random numbers: as easy as 1, 2, 3" (SC 2011). It has no state: the draw of a token depends on
// the seed and the token's index alone, so a sequence can be continued, replayed or batched and
// still draw the same numbers.
#pragma once

#include <array>
#include <cstdint>

#include "gguf/types.h"

namespace engine::op {

// Ten rounds over a 128-bit counter under a 64-bit key, words least significant first.
ENGINE_HD constexpr std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter,
                                                            std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t even = std::uint64_t{0xD2511F53u} * counter[0];
    const std::uint64_t odd = std::uint64_t{0xCD9E8D57u} * counter[2];
    counter = {static_cast<std::uint32_t>(odd >> 32) ^ counter[1] ^ key[0],
               static_cast<std::uint32_t>(odd),
               static_cast<std::uint32_t>(even >> 32) ^ counter[3] ^ key[1],
               static_cast<std::uint32_t>(even)};
    key = {key[0] + 0x9E3779B9u, key[1] + 0xBB67AE85u};  // golden ratio, sqrt(3) - 1
  }
  return counter;
}

// 64 uniform bits for one draw: words 1 (high) and 0 (low) of the block whose counter is `index`.
ENGINE_HD constexpr std::uint64_t philox_bits(std::uint64_t seed, std::uint64_t index) {
  const auto low = [](std::uint64_t v) { return static_cast<std::uint32_t>(v); };
  const auto high = [](std::uint64_t v) { return static_cast<std::uint32_t>(v >> 32); };
  const auto block = philox4x32({low(index), high(index), 0, 0}, {low(seed), high(seed)});
  return std::uint64_t{block[1]} << 32 | block[0];
}

}  // namespace engine::op
