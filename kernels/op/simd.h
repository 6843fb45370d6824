// The scalar member of the vector classes that kernels are written over.
//
// A vector class S has kLanes floats (S::F) or 32-bit integers (S::I) and static functions on them;
// an algorithm written once over S gives the same bits for every S, because each function rounds
// once per lane and no function mixes lanes of floats. Scalar is the one-lane class: the portable CPU leaf,
// host code such as the sampler, and device code use it.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "gguf/types.h"

namespace engine::op {

struct Scalar {
  static constexpr int kLanes = 1;
  using F = float;
  using I = std::int32_t;

  ENGINE_HD static F set(float v) { return v; }
  ENGINE_HD static F add(F a, F b) { return a + b; }
  ENGINE_HD static F sub(F a, F b) { return a - b; }
  ENGINE_HD static F mul(F a, F b) { return a * b; }
  ENGINE_HD static F div(F a, F b) { return a / b; }
  // One rounding. fmaf and sqrtf are exactly specified by IEEE 754, so calling them keeps the bits.
  ENGINE_HD static F fma(F a, F b, F c) { return ::fmaf(a, b, c); }
  ENGINE_HD static F max(F a, F b) { return a > b ? a : b; }
  ENGINE_HD static F abs(F a) { return from_bits(bits(a) & 0x7FFFFFFF); }
  // a where mask is true (all bits set), else b.
  ENGINE_HD static F select(I mask, F a, F b) { return mask != 0 ? a : b; }
  ENGINE_HD static I less(F a, F b) { return a < b ? -1 : 0; }

  ENGINE_HD static I seti(std::int32_t v) { return v; }
  ENGINE_HD static I bits(F a) { return std::bit_cast<std::int32_t>(a); }
  ENGINE_HD static F from_bits(I a) { return std::bit_cast<float>(a); }
  ENGINE_HD static I addi(I a, I b) { return wrap(u(a) + u(b)); }
  ENGINE_HD static I subi(I a, I b) { return wrap(u(a) - u(b)); }
  ENGINE_HD static I andi(I a, I b) { return a & b; }
  ENGINE_HD static I ori(I a, I b) { return a | b; }
  template <int n>
  ENGINE_HD static I shl(I a) {
    return wrap(u(a) << n);
  }
  // shr shifts in zeros, sar copies of the sign.
  template <int n>
  ENGINE_HD static I shr(I a) {
    return wrap(u(a) >> n);
  }
  template <int n>
  ENGINE_HD static I sar(I a) {
    return a >> n;
  }
  ENGINE_HD static F to_float(I a) { return static_cast<float>(a); }

 private:
  ENGINE_HD static std::uint32_t u(I a) { return static_cast<std::uint32_t>(a); }
  ENGINE_HD static I wrap(std::uint32_t a) { return static_cast<I>(a); }
};

}  // namespace engine::op
