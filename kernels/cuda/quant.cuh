// What the quantised matmuls share: unpacking of planes, 16-bit activations as the operands of byte
// products, and the float part of a term (op/matmul.h).
#pragma once

#include "kernels/cuda/planes.h"
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

// The same with the low bytes signed too; |x| <= 32639 (op/quantize.h), so the high ones stay bytes.
__device__ __forceinline__ QuadBytes signed_quad_bytes(unsigned x0x2, unsigned x1x3) {
  // Adds 128 to both 16-bit halves of numbers that are made positive first: no carry between them.
  const auto round = [](unsigned x) { return ((x ^ 0x80008000u) + 0x00800080u) ^ 0x80008000u; };
  return {__byte_perm(round(x0x2), round(x1x3), 0x7351), __byte_perm(x0x2, x1x3, 0x6240)};
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

// The tree over a segment's terms, block b's in the lanes of which bits kStep .. 4*kStep say b; they all get
// it. Absent terms are +0: that differs from skipping them in the sign of a zero only, which no row's sum,
// begun at +0, shows.
template <int kStep>
__device__ __forceinline__ float segment_tree(float term) {
  for (int step = kStep; step < op::kSegmentBlocks * kStep; step *= 2)
    term = term + __shfl_xor_sync(kAllLanes, term, step);
  return term;
}

// A block of planes as stored.
template <class Format>
struct PackedBlock {
  uint4 quants[Format::kQuants / 16];
  unsigned bits[2];  // as many as the format has
  unsigned head;     // d, dmin in the upper half
  std::uint16_t scales;
};

// All but the head.
template <class Format>
__device__ __forceinline__ PackedBlock<Format> load_body(const std::byte* group,
                                                         cuda::GroupLayout<Format> layout,
                                                         int segment, int lane) {
  PackedBlock<Format> block = {};
  const auto load = [&]<class T>(int at) {
    return load_streaming(reinterpret_cast<const T*>(group + at));
  };
  for (int i = 0; i < Format::kQuants / 16; ++i)
    block.quants[i] = load.template operator()<uint4>(layout.quants_of(segment, lane, i));
  if constexpr (Format::kBits == 4)
    block.bits[0] = load.template operator()<unsigned>(layout.bits_of(segment, lane));
  if constexpr (Format::kBits == 8) {
    const uint2 bits = load.template operator()<uint2>(layout.bits_of(segment, lane));
    block.bits[0] = bits.x;
    block.bits[1] = bits.y;
  }
  block.scales = load.template operator()<std::uint16_t>(layout.scales_of(segment, lane));
  return block;
}

template <class Format>
__device__ __forceinline__ unsigned load_head(const std::byte* group,
                                              cuda::GroupLayout<Format> layout, int segment,
                                              int lane) {
  const std::byte* head = group + layout.head_of(segment, lane % cuda::kGroup);
  if constexpr (Format::kHead == 4) return load_streaming(reinterpret_cast<const unsigned*>(head));
  if constexpr (Format::kHead == 2)
    return load_streaming(reinterpret_cast<const std::uint16_t*>(head));
  return 0;
}

template <class Format>
__device__ __forceinline__ PackedBlock<Format> load_block(const std::byte* group,
                                                          cuda::GroupLayout<Format> layout,
                                                          int segment, int lane) {
  PackedBlock<Format> block = load_body(group, layout, segment, lane);
  block.head = load_head(group, layout, segment, lane);
  return block;
}

__device__ __forceinline__ unsigned word(const uint4& v, int i) {
  return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
}

// True if quads are of signed bytes.
template <class Format>
inline constexpr bool kSigned = Format::kQuants == 32;

// The four weights of quad k, plus kOffset.
template <class Format>
__device__ __forceinline__ unsigned quad(const PackedBlock<Format>& block, int k) {
  if constexpr (kSigned<Format>) return word(block.quants[k / 4], k % 4);
  const unsigned low = word(block.quants[0], k / 2) >> 4 * (k % 2) & 0x0F0F0F0Fu;
  if constexpr (Format::kBits == 4)
    return low | ((k < 4 ? block.bits[0] << (4 - k) : block.bits[0] >> (k - 4)) & 0x10101010u);
  if constexpr (Format::kBits == 8) {
    const unsigned bits = block.bits[k / 4];
    const int from = 2 * (k % 4);
    return low | ((from < 4 ? bits << (4 - from) : bits >> (from - 4)) & 0x30303030u);
  }
  return low;
}

// The same as signed bytes without the offset, which is at most 128: no borrow between bytes.
template <class Format>
__device__ __forceinline__ unsigned signed_quad(const PackedBlock<Format>& block, int k) {
  if constexpr (Format::kOffset == 0) return quad(block, k);
  constexpr unsigned kTop = 0x80808080u, kOffsets = Format::kOffset * 0x01010101u;
  return ((quad(block, k) | kTop) - kOffsets) ^ kTop;
}

// c + the products of a quad of weights and one of activations' high, or low, bytes.
template <class Format>
__device__ __forceinline__ int multiply_high(unsigned w, unsigned x, int c) {
  return kSigned<Format> ? dp4a_s8s8(w, x, c) : dp4a_u8s8(w, x, c);
}
template <class Format>
__device__ __forceinline__ int multiply_low(unsigned w, unsigned x, int c) {
  return kSigned<Format> ? dp4a_s8u8(w, x, c) : dp4a_u8u8(w, x, c);
}

template <class Format>
__device__ __forceinline__ BlockScales scales_of(const PackedBlock<Format>& block) {
  const auto half = [](unsigned bits) {
    return gguf::f32_from_f16(static_cast<std::uint16_t>(bits));
  };
  const int first = block.scales & 0xFF, second = block.scales >> 8;
  if constexpr (Format::kHead == 0) return {half(block.scales), 0.0f, {1.0f, 1.0f}, {}};
  if constexpr (Format::kHead == 4)
    return {half(block.head),
            half(block.head >> 16),
            {static_cast<float>(first), 0.0f},
            {static_cast<float>(second), 0.0f}};
  return {half(block.head),
          0.0f,
          {static_cast<float>(static_cast<std::int8_t>(first)),
           static_cast<float>(static_cast<std::int8_t>(second))},
          {}};
}

}  // namespace engine::ENGINE_DEVICE_NS
