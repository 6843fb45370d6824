// Sixteen lanes of AVX-512, and VNNI's products of 16-bit pairs.
// Include only in leaf_avx512vnni.cc and leaf_avx512sums.cc, which are compiled for AVX-512 F, BW,
// DQ, VL and VNNI.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/simd_scalar.h"

namespace engine::cpu {

// Self keeps the instances of different leaves apart, as in ScalarSimd.
template <class Self>
struct Simd512 {
  static constexpr int kLanes = 16;
  static constexpr int kTileColumns = 8, kTileGroups = 2;
  using F = __m512;
  using I = __m512i;
  using Tail = ScalarSimd<Self>;

  static F set(float v) { return _mm512_set1_ps(v); }
  static F add(F a, F b) { return _mm512_add_ps(a, b); }
  static F sub(F a, F b) { return _mm512_sub_ps(a, b); }
  static F mul(F a, F b) { return _mm512_mul_ps(a, b); }
  static F div(F a, F b) { return _mm512_div_ps(a, b); }
  static F fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
  static F max(F a, F b) { return _mm512_max_ps(a, b); }  // b if either is NaN, as a > b ? a : b
  static F abs(F a) { return _mm512_abs_ps(a); }
  static F neg(F a) { return _mm512_xor_ps(a, set(-0.0f)); }
  static F select(I mask, F a, F b) {
    return _mm512_mask_blend_ps(_mm512_movepi32_mask(mask), b, a);
  }
  static I less(F a, F b) { return _mm512_movm_epi32(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ)); }

  static I seti(std::int32_t v) { return _mm512_set1_epi32(v); }
  static I bits(F a) { return _mm512_castps_si512(a); }
  static F from_bits(I a) { return _mm512_castsi512_ps(a); }
  static I addi(I a, I b) { return _mm512_add_epi32(a, b); }
  static I subi(I a, I b) { return _mm512_sub_epi32(a, b); }
  static I andi(I a, I b) { return _mm512_and_si512(a, b); }
  static I ori(I a, I b) { return _mm512_or_si512(a, b); }
  static I maxi(I a, I b) { return _mm512_max_epi32(a, b); }
  static I blend_bits(I mask, I a, I b) {
    return _mm512_ternarylogic_epi32(mask, a, b, 0xCA);  // the truth table of mask ? a : b
  }
  template <int n>
  static I shl(I a) {
    return _mm512_slli_epi32(a, n);
  }
  template <int n>
  static I shr(I a) {
    return _mm512_srli_epi32(a, n);
  }
  template <int n>
  static I sar(I a) {
    return _mm512_srai_epi32(a, n);
  }
  static F to_float(I a) { return _mm512_cvtepi32_ps(a); }
  template <int n>
  static I shr16(I a) {
    return _mm512_srli_epi16(a, n);
  }
  static I addi16(I a, I b) { return _mm512_add_epi16(a, b); }
  static I subi16(I a, I b) { return _mm512_sub_epi16(a, b); }
  static I dot2(I acc, I a, I b) { return _mm512_dpwssd_epi32(acc, a, b); }

  static F load(const float* p) { return _mm512_loadu_ps(p); }
  static void store(float* p, F v) { _mm512_storeu_ps(p, v); }
  static F load_f16(const std::uint16_t* p) { return _mm512_cvtph_ps(load_256(p)); }
  static void store_f16(std::uint16_t* p, F v) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                        _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
  static F load_bf16(const std::uint16_t* p) {
    return from_bits(shl<16>(_mm512_cvtepu16_epi32(load_256(p))));
  }
  static I loadi(const std::uint8_t* p) { return _mm512_loadu_si512(p); }
  // w[m] = word m of each row's 16 bytes; rows are `stride` bytes apart.
  static void load_words(const std::uint8_t* p, std::ptrdiff_t stride, I (&w)[4]) {
    I rows[4];  // rows j, j + 4, j + 8 and j + 12
    for (int j = 0; j < 4; ++j) {
      const auto row = [&](int r) {
        return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p + (j + r) * stride));
      };
      rows[j] = _mm512_castsi128_si512(row(0));
      rows[j] = _mm512_inserti32x4(rows[j], row(4), 1);
      rows[j] = _mm512_inserti32x4(rows[j], row(8), 2);
      rows[j] = _mm512_inserti32x4(rows[j], row(12), 3);
    }
    const I w01 = _mm512_unpacklo_epi32(rows[0], rows[1]),
            w23 = _mm512_unpackhi_epi32(rows[0], rows[1]),
            v01 = _mm512_unpacklo_epi32(rows[2], rows[3]),
            v23 = _mm512_unpackhi_epi32(rows[2], rows[3]);
    w[0] = _mm512_unpacklo_epi64(w01, v01);
    w[1] = _mm512_unpackhi_epi64(w01, v01);
    w[2] = _mm512_unpacklo_epi64(w23, v23);
    w[3] = _mm512_unpackhi_epi64(w23, v23);
  }
  // Stores v, the values of elements i, i+1, …, as 16-bit integers at their op::quad_position.
  static void store_quads(std::int16_t* q, int i, I v) {
    const __m256i quads = _mm256_setr_epi8(0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15,  //
                                           0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(q + i),
                        _mm256_shuffle_epi8(_mm512_cvtepi32_epi16(v), quads));
  }
  static I load_u8(const std::uint8_t* p) { return _mm512_cvtepu8_epi32(load_128(p)); }
  static I load_i8(const std::uint8_t* p) { return _mm512_cvtepi8_epi32(load_128(p)); }
  static I nibble_dot(I acc, I nibbles, I bytes) {
    return _mm512_dpbusd_epi32(acc, nibbles, bytes);
  }
  static I nibble_sums(I acc) { return acc; }
  // v[0] * v[1] in lane 0, v[2] * v[3] in lane 2, …, zero in the others; of signed 16-bit values.
  static I neighbour_products(I v) {
    return _mm512_madd_epi16(v, andi(_mm512_srli_epi64(v, 32), seti(0xFFFF)));
  }
  // The largest lane, and the sum of the lanes.
  static std::int32_t reduce_max(I v) { return _mm512_reduce_max_epi32(v); }
  static std::int32_t reduce_add(I v) { return _mm512_reduce_add_epi32(v); }

 private:
  static __m256i load_256(const std::uint16_t* p) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  }
  static __m128i load_128(const std::uint8_t* p) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  }
};

struct Avx512Vnni : Simd512<Avx512Vnni> {
  static constexpr bool kProductsOfSums = false;
  static constexpr int kDirectColumns = 16;
};

// For processors on which additions leave the multipliers' ports alone.
struct Avx512Sums : Simd512<Avx512Sums> {
  static constexpr bool kProductsOfSums = true;
  static constexpr int kDirectColumns = 8;
};

}  // namespace engine::cpu
