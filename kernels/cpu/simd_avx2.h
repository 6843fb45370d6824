// The AVX2 leaf's vector class. Include only in leaf_avx2.cc, which is compiled for AVX2.
#pragma once

#include "kernels/cpu/simd_256.h"

namespace engine::cpu {

struct Avx2 : Simd256<Avx2> {
  // Sums of 16 bits: at most 2 * 15 * 128 a product, eight of which fit.
  static I nibble_dot(I acc, I nibbles, I bytes) {
    return _mm256_add_epi16(acc, _mm256_maddubs_epi16(nibbles, bytes));
  }
  static I nibble_sums(I acc) { return _mm256_madd_epi16(acc, _mm256_set1_epi16(1)); }
  static I dot2(I acc, I a, I b) { return addi(acc, _mm256_madd_epi16(a, b)); }
};

}  // namespace engine::cpu
