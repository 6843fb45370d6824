// fp32 to fp16, the direction the KV cache needs; the other one is gguf::f32_from_f16.
#pragma once

#include <bit>
#include <cstdint>

#include "gguf/types.h"

namespace engine::op {

// The nearest fp16, ties to even. Overflow becomes infinity; every NaN becomes the same quiet NaN.
ENGINE_HD constexpr std::uint16_t f16_from_f32(float f) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(f);
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7FFFFFFFu;
  std::uint32_t half = 0;
  if (magnitude > 0x7F800000u) {
    half = 0x7E00u;  // NaN
  } else if (magnitude >= 0x47800000u) {
    half = 0x7C00u;  // 2^16 and above
  } else if (magnitude < 0x38800000u) {
    // Below 2^-14 the result is a multiple of 2^-24, the weight of the last bit of floats in [0.5,
    // 1): adding 0.5 lets the hardware round, and the low bits of the sum are the result.
    half = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3F000000u;
  } else {
    // 13 bits go: add just under half of what they are worth, or exactly half when the kept part is
    // odd. The carry may run into the exponent, which is right, and turns 65520 and above into
    // infinity.
    const std::uint32_t odd = (magnitude >> 13) & 1u;
    half = (magnitude - (112u << 23) + 0xFFFu + odd) >> 13;
  }
  return static_cast<std::uint16_t>(sign | half);
}

}  // namespace engine::op
