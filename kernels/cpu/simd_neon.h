// Four lanes of Advanced SIMD, as every AArch64 processor has it: nothing beyond ARMv8-A.
// Include only in leaf_neon.cc.
#pragma once

#include <arm_neon.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/simd_scalar.h"

namespace engine::cpu {

struct Neon {
  static constexpr int kLanes = 4;
  // Chosen for 32 registers (16 of them sums), not measured.
  static constexpr int kTileColumns = 4, kTileGroups = 1, kDirectColumns = 4;
  static constexpr bool kProductsOfSums = false;
  using F = float32x4_t;
  using I = int32x4_t;
  using Tail = ScalarSimd<Neon>;

  static F set(float v) { return vdupq_n_f32(v); }
  static F add(F a, F b) { return vaddq_f32(a, b); }
  static F sub(F a, F b) { return vsubq_f32(a, b); }
  static F mul(F a, F b) { return vmulq_f32(a, b); }
  static F div(F a, F b) { return vdivq_f32(a, b); }
  static F fma(F a, F b, F c) { return vfmaq_f32(c, a, b); }
  // b if either is NaN, which vmaxq_f32 would return instead.
  static F max(F a, F b) { return vbslq_f32(vcgtq_f32(a, b), a, b); }
  static F abs(F a) { return vabsq_f32(a); }
  static F neg(F a) { return vnegq_f32(a); }
  static F select(I mask, F a, F b) { return vbslq_f32(vreinterpretq_u32_s32(mask), a, b); }
  static I less(F a, F b) { return vreinterpretq_s32_u32(vcltq_f32(a, b)); }

  static I seti(std::int32_t v) { return vdupq_n_s32(v); }
  static I bits(F a) { return vreinterpretq_s32_f32(a); }
  static F from_bits(I a) { return vreinterpretq_f32_s32(a); }
  static I addi(I a, I b) { return vaddq_s32(a, b); }
  static I subi(I a, I b) { return vsubq_s32(a, b); }
  static I andi(I a, I b) { return vandq_s32(a, b); }
  static I ori(I a, I b) { return vorrq_s32(a, b); }
  static I maxi(I a, I b) { return vmaxq_s32(a, b); }
  static I blend_bits(I mask, I a, I b) { return vbslq_s32(vreinterpretq_u32_s32(mask), a, b); }
  template <int n>
  static I shl(I a) {
    return vshlq_n_s32(a, n);
  }
  template <int n>
  static I shr(I a) {
    return vreinterpretq_s32_u32(vshrq_n_u32(vreinterpretq_u32_s32(a), n));
  }
  template <int n>
  static I sar(I a) {
    return vshrq_n_s32(a, n);
  }
  static F to_float(I a) { return vcvtq_f32_s32(a); }
  template <int n>
  static I shr16(I a) {
    return vreinterpretq_s32_u16(vshrq_n_u16(vreinterpretq_u16_s32(a), n));
  }
  static I addi16(I a, I b) { return from_halves(vaddq_s16(halves(a), halves(b))); }
  static I subi16(I a, I b) { return from_halves(vsubq_s16(halves(a), halves(b))); }
  // Not ARMv8.2's sdot: it multiplies bytes, and activations have 16 bits.
  static I dot2(I acc, I a, I b) {
    const int16x8_t x = halves(a), y = halves(b);
    const I low = vmull_s16(vget_low_s16(x), vget_low_s16(y)), high = vmull_high_s16(x, y);
    return vaddq_s32(acc, vpaddq_s32(low, high));
  }

  static F load(const float* p) { return vld1q_f32(p); }
  static void store(float* p, F v) { vst1q_f32(p, v); }
  static F load_f16(const std::uint16_t* p) {
    return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)));
  }
  static void store_f16(std::uint16_t* p, F v) {
    vst1_u16(p, vreinterpret_u16_f16(vcvt_f16_f32(v)));
  }
  static F load_bf16(const std::uint16_t* p) {
    return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p), 16));
  }
  static I loadi(const std::uint8_t* p) { return vreinterpretq_s32_u8(vld1q_u8(p)); }
  // w[m] = word m of each row's 16 bytes; rows are `stride` bytes apart.
  static void load_words(const std::uint8_t* p, std::ptrdiff_t stride, I (&w)[4]) {
    const I r0 = loadi(p), r1 = loadi(p + stride), r2 = loadi(p + 2 * stride),
            r3 = loadi(p + 3 * stride);
    const int64x2_t w02 = wide(vtrn1q_s32(r0, r1)), w13 = wide(vtrn2q_s32(r0, r1)),
                    v02 = wide(vtrn1q_s32(r2, r3)), v13 = wide(vtrn2q_s32(r2, r3));
    w[0] = vreinterpretq_s32_s64(vtrn1q_s64(w02, v02));
    w[1] = vreinterpretq_s32_s64(vtrn1q_s64(w13, v13));
    w[2] = vreinterpretq_s32_s64(vtrn2q_s64(w02, v02));
    w[3] = vreinterpretq_s32_s64(vtrn2q_s64(w13, v13));
  }
  // Stores v, the values of elements i, i+1, …, as 16-bit integers at their op::quad_position.
  static void store_quads(std::int16_t* q, int i, I v) {
    const int16x4_t v0123 = vmovn_s32(v), v1230 = vext_s16(v0123, v0123, 1);
    vst1_s16(q + i, vuzp1_s16(v0123, v1230));
  }
  static I load_u8(const std::uint8_t* p) {
    return vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(vmovl_u8(load_32(p)))));
  }
  static I load_i8(const std::uint8_t* p) {
    return vmovl_s16(vget_low_s16(vmovl_s8(vreinterpret_s8_u8(load_32(p)))));
  }

  // Sums of 16 bits: at most 2 * 15 * 128 a product, eight of which fit.
  static I nibble_dot(I acc, I nibbles, I bytes) {
    const int8x16_t n = vreinterpretq_s8_s32(nibbles), s = vreinterpretq_s8_s32(bytes);
    const int16x8_t low = vmull_s8(vget_low_s8(n), vget_low_s8(s)), high = vmull_high_s8(n, s);
    return from_halves(vaddq_s16(halves(acc), vpaddq_s16(low, high)));
  }
  static I nibble_sums(I acc) { return vpaddlq_s16(halves(acc)); }
  // v[0] * v[1] in lane 0, v[2] * v[3] in lane 2, zero in the others; of signed 16-bit values.
  static I neighbour_products(I v) {
    return vmulq_s32(v, vreinterpretq_s32_u64(vshrq_n_u64(vreinterpretq_u64_s32(v), 32)));
  }
  // The largest lane, and the sum of the lanes.
  static std::int32_t reduce_max(I v) { return vmaxvq_s32(v); }
  static std::int32_t reduce_add(I v) { return vaddvq_s32(v); }

 private:
  static int16x8_t halves(I a) { return vreinterpretq_s16_s32(a); }
  static int64x2_t wide(I a) { return vreinterpretq_s64_s32(a); }
  static I from_halves(int16x8_t a) { return vreinterpretq_s32_s16(a); }
  static uint8x8_t load_32(const std::uint8_t* p) {
    std::uint32_t word;
    std::memcpy(&word, p, sizeof word);
    return vcreate_u8(word);
  }
};

}  // namespace engine::cpu
