// Eight lanes of AVX2, shared by the leaves of 256-bit registers.
// Include only in a leaf_*.cc that is compiled for AVX2.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/simd_scalar.h"

namespace engine::cpu {

// What a vector class of eight lanes needs but dot2. Self keeps the instances of different leaves
// apart, as in ScalarSimd.
template <class Self>
struct Simd256 {
  static constexpr int kLanes = 8;
  static constexpr int kTileColumns = 4, kTileGroups = 1, kDirectColumns = 3;
  static constexpr bool kProductsOfSums = false;
  using F = __m256;
  using I = __m256i;
  using Tail = ScalarSimd<Self>;

  static F set(float v) { return _mm256_set1_ps(v); }
  static F add(F a, F b) { return _mm256_add_ps(a, b); }
  static F sub(F a, F b) { return _mm256_sub_ps(a, b); }
  static F mul(F a, F b) { return _mm256_mul_ps(a, b); }
  static F div(F a, F b) { return _mm256_div_ps(a, b); }
  static F fma(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }
  static F max(F a, F b) { return _mm256_max_ps(a, b); }  // b if either is NaN, as a > b ? a : b
  static F abs(F a) { return from_bits(andi(bits(a), seti(0x7FFFFFFF))); }
  static F neg(F a) { return _mm256_xor_ps(a, set(-0.0f)); }
  static F select(I mask, F a, F b) { return _mm256_blendv_ps(b, a, from_bits(mask)); }
  static I less(F a, F b) { return bits(_mm256_cmp_ps(a, b, _CMP_LT_OQ)); }

  static I seti(std::int32_t v) { return _mm256_set1_epi32(v); }
  static I bits(F a) { return _mm256_castps_si256(a); }
  static F from_bits(I a) { return _mm256_castsi256_ps(a); }
  static I addi(I a, I b) { return _mm256_add_epi32(a, b); }
  static I subi(I a, I b) { return _mm256_sub_epi32(a, b); }
  static I andi(I a, I b) { return _mm256_and_si256(a, b); }
  static I ori(I a, I b) { return _mm256_or_si256(a, b); }
  static I maxi(I a, I b) { return _mm256_max_epi32(a, b); }
  static I blend_bits(I mask, I a, I b) { return ori(andi(mask, a), _mm256_andnot_si256(mask, b)); }
  template <int n>
  static I shl(I a) {
    return _mm256_slli_epi32(a, n);
  }
  template <int n>
  static I shr(I a) {
    return _mm256_srli_epi32(a, n);
  }
  template <int n>
  static I sar(I a) {
    return _mm256_srai_epi32(a, n);
  }
  static F to_float(I a) { return _mm256_cvtepi32_ps(a); }
  template <int n>
  static I shr16(I a) {
    return _mm256_srli_epi16(a, n);
  }
  static I addi16(I a, I b) { return _mm256_add_epi16(a, b); }
  static I subi16(I a, I b) { return _mm256_sub_epi16(a, b); }

  static F load(const float* p) { return _mm256_loadu_ps(p); }
  static void store(float* p, F v) { _mm256_storeu_ps(p, v); }
  static F load_f16(const std::uint16_t* p) { return _mm256_cvtph_ps(load_128(p)); }
  static void store_f16(std::uint16_t* p, F v) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p),
                     _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
  static F load_bf16(const std::uint16_t* p) {
    return from_bits(shl<16>(_mm256_cvtepu16_epi32(load_128(p))));
  }
  static I loadi(const std::uint8_t* p) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  }
  // w[m] = word m of each row's 16 bytes; rows are `stride` bytes apart.
  static void load_words(const std::uint8_t* p, std::ptrdiff_t stride, I (&w)[4]) {
    I rows[4];  // rows j and j + 4
    for (int j = 0; j < 4; ++j) {
      const auto* low = reinterpret_cast<const __m128i*>(p + j * stride);
      const auto* high = reinterpret_cast<const __m128i*>(p + (j + 4) * stride);
      rows[j] = _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128(low)),
                                        _mm_loadu_si128(high), 1);
    }
    const I w01 = _mm256_unpacklo_epi32(rows[0], rows[1]),
            w23 = _mm256_unpackhi_epi32(rows[0], rows[1]),
            v01 = _mm256_unpacklo_epi32(rows[2], rows[3]),
            v23 = _mm256_unpackhi_epi32(rows[2], rows[3]);
    w[0] = _mm256_unpacklo_epi64(w01, v01);
    w[1] = _mm256_unpackhi_epi64(w01, v01);
    w[2] = _mm256_unpacklo_epi64(w23, v23);
    w[3] = _mm256_unpackhi_epi64(w23, v23);
  }
  // Stores v, the values of elements i, i+1, …, as 16-bit integers at their op::quad_position.
  static void store_quads(std::int16_t* q, int i, I v) {
    const __m256i low_halves =
        _mm256_setr_epi8(0, 1, 8, 9, 4, 5, 12, 13, -1, -1, -1, -1, -1, -1, -1, -1,  //
                         0, 1, 8, 9, 4, 5, 12, 13, -1, -1, -1, -1, -1, -1, -1, -1);
    const __m256i quads = _mm256_shuffle_epi8(v, low_halves);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(q + i),
                     _mm256_castsi256_si128(_mm256_permute4x64_epi64(quads, 0b1000)));
  }
  static I load_u8(const std::uint8_t* p) { return _mm256_cvtepu8_epi32(load_64(p)); }
  static I load_i8(const std::uint8_t* p) { return _mm256_cvtepi8_epi32(load_64(p)); }

  // v[0] * v[1] in lane 0, v[2] * v[3] in lane 2, …, zero in the others; of signed 16-bit values.
  static I neighbour_products(I v) {
    return _mm256_madd_epi16(v, andi(_mm256_srli_epi64(v, 32), seti(0xFFFF)));
  }
  // The largest lane, and the sum of the lanes.
  static std::int32_t reduce_max(I v) {
    return reduce(v, [](__m128i a, __m128i b) { return _mm_max_epi32(a, b); });
  }
  static std::int32_t reduce_add(I v) {
    return reduce(v, [](__m128i a, __m128i b) { return _mm_add_epi32(a, b); });
  }

 private:
  template <class Fn>
  static std::int32_t reduce(I v, const Fn& join) {
    __m128i m = join(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    m = join(m, _mm_shuffle_epi32(m, 0b01001110));
    m = join(m, _mm_shuffle_epi32(m, 0b10110001));
    return _mm_cvtsi128_si32(m);
  }
  static __m128i load_128(const std::uint16_t* p) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  }
  static __m128i load_64(const std::uint8_t* p) {
    return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
  }
};

}  // namespace engine::cpu
