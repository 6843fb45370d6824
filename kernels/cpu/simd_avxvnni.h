// The vector classes of the two VNNI leaves of 256-bit registers: AVX2 and one instruction for
// products of 16-bit pairs, which exists in two encodings. Processors with AVX-512 may lack the
// first, and those without AVX-512 have no other.
// Include only in leaf_avxvnni.cc and leaf_avx512vlvnni.cc, which are compiled for them.
#pragma once

#include "kernels/cpu/simd_256.h"

namespace engine::cpu {

#if defined(__AVXVNNI__)
struct AvxVnni : Simd256<AvxVnni> {
  static I dot2(I acc, I a, I b) { return _mm256_dpwssd_avx_epi32(acc, a, b); }
  static I nibble_dot(I acc, I nibbles, I bytes) {
    return _mm256_dpbusd_avx_epi32(acc, nibbles, bytes);
  }
  static I nibble_sums(I acc) { return acc; }
};
#else
struct Avx512VlVnni : Simd256<Avx512VlVnni> {
  static I dot2(I acc, I a, I b) { return _mm256_dpwssd_epi32(acc, a, b); }
  static I nibble_dot(I acc, I nibbles, I bytes) {
    return _mm256_dpbusd_epi32(acc, nibbles, bytes);
  }
  static I nibble_sums(I acc) { return acc; }
};
#endif

}  // namespace engine::cpu
