// The portable leaf's vector class: one lane, plain C++.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/op/convert.h"
#include "kernels/op/quantize.h"
#include "kernels/op/simd.h"

namespace engine::cpu {

// op::Scalar plus what kernels need to touch memory. Level keeps the instances of different leaves
// apart: each is compiled with its own instruction set, so the linker must never merge them.
template <class Level>
struct ScalarSimd : op::Scalar {
  // Of the matmuls over planes: the register tile's columns and groups of rows, up to how many
  // columns weights need not be expanded first, and how sums are formed (matmul_tile.h). Measured.
  static constexpr int kTileColumns = 4, kTileGroups = 1, kDirectColumns = 4;
  static constexpr bool kProductsOfSums = false;
  using Tail = ScalarSimd;  // the class for what is left over when lanes do not divide a length

  static F load(const float* p) { return *p; }
  static void store(float* p, F v) { *p = v; }
  static F load_f16(const std::uint16_t* p) { return gguf::f32_from_f16(*p); }
  static void store_f16(std::uint16_t* p, F v) { *p = op::f16_from_f32(v); }
  static F load_bf16(const std::uint16_t* p) { return gguf::f32_from_bf16(*p); }
  static I loadi(const std::uint8_t* p) {
    I v;
    std::memcpy(&v, p, sizeof v);
    return v;
  }
  // w[m] = word m of each row's 16 bytes; rows are `stride` bytes apart.
  static void load_words(const std::uint8_t* p, std::ptrdiff_t /*stride*/, I (&w)[4]) {
    for (int m = 0; m < 4; ++m) w[m] = loadi(p + 4 * m);
  }
  static void store_quads(std::int16_t* q, int i, I v) {
    q[op::quad_position(i)] = static_cast<std::int16_t>(v);
  }
  static I load_u8(const std::uint8_t* p) { return *p; }
  static I load_i8(const std::uint8_t* p) { return static_cast<std::int8_t>(*p); }

  // acc + the products of four nibbles with four signed bytes; from 0 on, eight of them can be added. The sums
  // may be spread within the vector until nibble_sums() joins them.
  static I nibble_dot(I acc, I nibbles, I bytes) {
    for (int c = 0; c < 32; c += 8)
      acc += (nibbles >> c & 15) * static_cast<std::int8_t>(bytes >> c & 0xFF);
    return acc;
  }
  static I nibble_sums(I acc) { return acc; }
  static I maxi(I a, I b) { return a > b ? a : b; }
  static std::int32_t reduce_max(I v) { return v; }
  static std::int32_t reduce_add(I v) { return v; }
  static F neg(F a) { return -a; }
  // a where the mask's bits are set, b where not.
  static I blend_bits(I mask, I a, I b) { return (mask & a) | (~mask & b); }
  // The same on both 16-bit halves: shr16 shifts in zeros, subi16 wraps.
  template <int n>
  static I shr16(I a) {
    return op::Scalar::shr<n>(a) & static_cast<I>(0xFFFFu >> n << 16 | 0xFFFFu >> n);
  }
  static I addi16(I a, I b) { return halves(low(a) + low(b), high(a) + high(b)); }
  static I subi16(I a, I b) { return halves(low(a) - low(b), high(a) - high(b)); }
  // acc + the products of the two signed 16-bit halves.
  static I dot2(I acc, I a, I b) {
    return op::Scalar::addi(acc, op::Scalar::addi(low(a) * low(b), high(a) * high(b)));
  }

 private:
  static I low(I a) { return static_cast<std::int16_t>(a & 0xFFFF); }
  static I high(I a) { return a >> 16; }
  static I halves(I low, I high) {
    return static_cast<I>(static_cast<std::uint32_t>(high) << 16) | (low & 0xFFFF);
  }
};

}  // namespace engine::cpu
