// The AVX2 leaf's vector class. Include only in leaf_avx2.cc, which is compiled for AVX2.
#pragma once

#include "kernels/cpu/simd_256.h"

namespace engine::cpu {

struct Avx2 : Simd256<Avx2> {
  static I dot2(I acc, I a, I b) { return addi(acc, _mm256_madd_epi16(a, b)); }
};

}  // namespace engine::cpu
