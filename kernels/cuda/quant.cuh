// What the quantised matmuls share: 16-bit activations as the operands of byte products, and the float
// part of a term (op/matmul.h).
#pragma once

#include "kernels/cuda/ptx.cuh"
#include "kernels/op/matmul.h"
#include "kernels/op/simd.h"

namespace engine::ENGINE_DEVICE_NS {

// The high bytes, signed, and the low bytes, unsigned, of four activations stored as op::quad_position
// says: x = 256 * high + low.
struct QuadBytes {
  unsigned high, low;
};
__device__ __forceinline__ QuadBytes quad_bytes(unsigned x0x2, unsigned x1x3) {
  return {__byte_perm(x0x2, x1x3, 0x7351), __byte_perm(x0x2, x1x3, 0x6240)};
}

// 256 * high + low, modulo 2^32; every sum over a block fits.
__device__ __forceinline__ int join_halves(int high, int low) {
  return static_cast<int>((static_cast<unsigned>(high) << 8) + static_cast<unsigned>(low));
}

// The float factors of a block of 32 weights. m: dmin, or the minimum that is added.
struct BlockScales {
  float d, m;
  float s[2];  // sub-scales; the second one where there are two sub-blocks of 16
  float n[2];  // sub-minima
};

// first, second: the integer sums of the sub-blocks; x_sum: those of the activations per 16.
template <int kSubBlocks, gguf::Minimum kMinimum>
__device__ __forceinline__ float block_term(int first, int second, const BlockScales& w, float dx,
                                            int2 x_sum) {
  using S = op::Scalar;
  float a = static_cast<float>(first) * w.s[0];
  if constexpr (kSubBlocks == 2) a = S::fma(static_cast<float>(second), w.s[1], a);
  const float d = w.d * dx;
  if constexpr (kMinimum == gguf::Minimum::subtract) {
    float e = static_cast<float>(kSubBlocks == 2 ? x_sum.x : x_sum.x + x_sum.y) * w.n[0];
    if constexpr (kSubBlocks == 2) e = S::fma(static_cast<float>(x_sum.y), w.n[1], e);
    return S::fma(a, d, -(e * (w.m * dx)));
  } else if constexpr (kMinimum == gguf::Minimum::add) {
    return S::fma(a, d, static_cast<float>(x_sum.x + x_sum.y) * (w.m * dx));
  } else {
    return a * d;
  }
}

// The tree over a segment's terms, one in each of eight neighbouring lanes, which all get it. Absent terms
// are +0: that differs from skipping them in the sign of a zero only, which no row's sum, begun at +0, shows.
__device__ __forceinline__ float segment_tree(float term) {
  for (int step = 1; step < op::kSegmentBlocks; step *= 2)
    term = term + __shfl_xor_sync(kAllLanes, term, step);
  return term;
}

}  // namespace engine::ENGINE_DEVICE_NS
