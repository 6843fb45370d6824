// GGUF tensor types: their ids, their blocks byte for byte, and what one element of a block means.
//
// A quantised block holds kElements weights. All formats share one shape:
//   weight(i) = d * sub_scale(i / kSubBlock) * quant(i)  [- dmin * sub_min(i / kSubBlock)]  [+ m]
// with d, dmin, m stored as fp16 and every other factor a small integer, so each product above is
// exact in fp32 and only the final addition rounds. decode(block, i) is that formula: the one
// scalar meaning of every format, which all unpackers are tested against.
//
// Source of the layouts: the GGUF specification and the type definitions it refers to.
// Usable from host and device code.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

#if defined(__CUDACC__)
#define ENGINE_HD __host__ __device__
#else
#define ENGINE_HD
#endif

namespace engine::gguf {

// Ids as stored in files. Ids 4, 5, 31-33, 36-38 were removed from the format.
enum class Type : std::uint32_t {
  f32 = 0,
  f16 = 1,
  q4_0 = 2,
  q4_1 = 3,
  q5_0 = 6,
  q5_1 = 7,
  q8_0 = 8,
  q8_1 = 9,
  q2_k = 10,
  q3_k = 11,
  q4_k = 12,
  q5_k = 13,
  q6_k = 14,
  q8_k = 15,
  iq2_xxs = 16,
  iq2_xs = 17,
  iq3_xxs = 18,
  iq1_s = 19,
  iq4_nl = 20,
  iq3_s = 21,
  iq2_s = 22,
  iq4_xs = 23,
  i8 = 24,
  i16 = 25,
  i32 = 26,
  i64 = 27,
  f64 = 28,
  iq1_m = 29,
  bf16 = 30,
  tq1_0 = 34,
  tq2_0 = 35,
  mxfp4 = 39,
  nvfp4 = 40,
  q1_0 = 41,
  q2_0 = 42,
};

// Storage facts of a type. block_bytes is 0 for the types whose size this reader does not know
// (ids 40-42): they are named in errors, never read.
struct TypeTraits {
  Type type;
  std::string_view name;  // "Q4_K"
  std::uint32_t block_elements;
  std::uint32_t block_bytes;
};

// Traits of a type id from a file, or nullptr for an id that is removed or unknown.
const TypeTraits* find_traits(std::uint32_t type_id) noexcept;
// Traits of an enumerator; every enumerator has them.
const TypeTraits& traits(Type type) noexcept;
inline std::string_view name(Type type) noexcept { return traits(type).name; }

// fp16 bits to fp32, exact; infinities and NaN included.
ENGINE_HD constexpr float f32_from_f16(std::uint16_t h) {
  const std::uint32_t sign = static_cast<std::uint32_t>(h & 0x8000u) << 16;
  const std::uint32_t exponent = (h >> 10) & 0x1Fu;
  const std::uint32_t mantissa = h & 0x3FFu;
  if (exponent == 0) {  // zero or subnormal: mantissa * 2^-24 is exact in fp32
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | sign);
  }
  const std::uint32_t exponent32 = exponent == 31 ? 255 : exponent + (127 - 15);
  return std::bit_cast<float>(sign | (exponent32 << 23) | (mantissa << 13));
}

// bf16 bits to fp32, exact.
ENGINE_HD constexpr float f32_from_bf16(std::uint16_t h) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(h) << 16);
}

// What, if anything, is added to the scaled quant.
enum class Minimum {
  none,      // d * s * q
  subtract,  // d * s * q - dmin * n
  add,       // d * q + m
};

// Blocks. Members are the file's bytes; quant() is the signed integer of element i with the
// format's offset removed. Formats without sub-scales have one sub-block with scale 1.

struct BlockQ4_0 {
  static constexpr int kElements = 32, kSubBlock = 32;
  static constexpr Minimum kMinimum = Minimum::none;
  std::uint16_t d;
  std::uint8_t qs[16];
  ENGINE_HD int quant(int i) const { return (i < 16 ? qs[i] & 15 : qs[i - 16] >> 4) - 8; }
  ENGINE_HD int sub_scale(int) const { return 1; }
};

struct BlockQ4_1 {
  static constexpr int kElements = 32, kSubBlock = 32;
  static constexpr Minimum kMinimum = Minimum::add;
  std::uint16_t d, m;
  std::uint8_t qs[16];
  ENGINE_HD int quant(int i) const { return i < 16 ? qs[i] & 15 : qs[i - 16] >> 4; }
  ENGINE_HD int sub_scale(int) const { return 1; }
};

struct BlockQ5_0 {
  static constexpr int kElements = 32, kSubBlock = 32;
  static constexpr Minimum kMinimum = Minimum::none;
  std::uint16_t d;
  std::uint8_t qh[4];
  std::uint8_t qs[16];
  ENGINE_HD int quant(int i) const {
    const int low = i < 16 ? qs[i] & 15 : qs[i - 16] >> 4;
    return (low | ((qh[i / 8] >> (i % 8)) & 1) << 4) - 16;
  }
  ENGINE_HD int sub_scale(int) const { return 1; }
};

struct BlockQ5_1 {
  static constexpr int kElements = 32, kSubBlock = 32;
  static constexpr Minimum kMinimum = Minimum::add;
  std::uint16_t d, m;
  std::uint8_t qh[4];
  std::uint8_t qs[16];
  ENGINE_HD int quant(int i) const {
    const int low = i < 16 ? qs[i] & 15 : qs[i - 16] >> 4;
    return low | ((qh[i / 8] >> (i % 8)) & 1) << 4;
  }
  ENGINE_HD int sub_scale(int) const { return 1; }
};

struct BlockQ8_0 {
  static constexpr int kElements = 32, kSubBlock = 32;
  static constexpr Minimum kMinimum = Minimum::none;
  std::uint16_t d;
  std::int8_t qs[32];
  ENGINE_HD int quant(int i) const { return qs[i]; }
  ENGINE_HD int sub_scale(int) const { return 1; }
};

struct BlockQ2_K {
  static constexpr int kElements = 256, kSubBlock = 16;
  static constexpr Minimum kMinimum = Minimum::subtract;
  std::uint8_t scales[16];  // low nibble scale, high nibble minimum
  std::uint8_t qs[64];
  std::uint16_t d, dmin;
  ENGINE_HD int quant(int i) const {
    return (qs[32 * (i / 128) + i % 32] >> (2 * (i % 128 / 32))) & 3;
  }
  ENGINE_HD int sub_scale(int j) const { return scales[j] & 15; }
  ENGINE_HD int sub_min(int j) const { return scales[j] >> 4; }
};

struct BlockQ3_K {
  static constexpr int kElements = 256, kSubBlock = 16;
  static constexpr Minimum kMinimum = Minimum::none;
  std::uint8_t hmask[32];
  std::uint8_t qs[64];
  std::uint8_t scales[12];  // sixteen 6-bit values: low nibbles in 0-7, high pairs in 8-11
  std::uint16_t d;
  ENGINE_HD int quant(int i) const {
    const int low = (qs[32 * (i / 128) + i % 32] >> (2 * (i % 128 / 32))) & 3;
    return low - ((hmask[i % 32] >> (i / 32)) & 1 ? 0 : 4);
  }
  ENGINE_HD int sub_scale(int j) const {
    const int low = (scales[j % 8] >> (4 * (j / 8))) & 15;
    return (low | ((scales[8 + j % 4] >> (2 * (j / 4))) & 3) << 4) - 32;
  }
};

// The packed 6-bit scales and minimums that Q4_K and Q5_K share: eight of each in twelve bytes.
ENGINE_HD inline int packed_scale(const std::uint8_t* scales, int j) {
  return j < 4 ? scales[j] & 63 : (scales[j + 4] & 15) | (scales[j - 4] >> 6) << 4;
}
ENGINE_HD inline int packed_min(const std::uint8_t* scales, int j) {
  return j < 4 ? scales[j + 4] & 63 : (scales[j + 4] >> 4) | (scales[j] >> 6) << 4;
}

struct BlockQ4_K {
  static constexpr int kElements = 256, kSubBlock = 32;
  static constexpr Minimum kMinimum = Minimum::subtract;
  std::uint16_t d, dmin;
  std::uint8_t scales[12];
  std::uint8_t qs[128];
  ENGINE_HD int quant(int i) const {
    return (qs[32 * (i / 64) + i % 32] >> (4 * (i / 32 % 2))) & 15;
  }
  ENGINE_HD int sub_scale(int j) const { return packed_scale(scales, j); }
  ENGINE_HD int sub_min(int j) const { return packed_min(scales, j); }
};

struct BlockQ5_K {
  static constexpr int kElements = 256, kSubBlock = 32;
  static constexpr Minimum kMinimum = Minimum::subtract;
  std::uint16_t d, dmin;
  std::uint8_t scales[12];
  std::uint8_t qh[32];
  std::uint8_t qs[128];
  ENGINE_HD int quant(int i) const {
    const int low = (qs[32 * (i / 64) + i % 32] >> (4 * (i / 32 % 2))) & 15;
    return low | ((qh[i % 32] >> (i / 32)) & 1) << 4;
  }
  ENGINE_HD int sub_scale(int j) const { return packed_scale(scales, j); }
  ENGINE_HD int sub_min(int j) const { return packed_min(scales, j); }
};

struct BlockQ6_K {
  static constexpr int kElements = 256, kSubBlock = 16;
  static constexpr Minimum kMinimum = Minimum::none;
  std::uint8_t ql[128];
  std::uint8_t qh[64];
  std::int8_t scales[16];
  std::uint16_t d;
  ENGINE_HD int quant(int i) const {
    const int half = i / 128, quarter = i % 128 / 32, l = i % 32;
    const int low = (ql[64 * half + 32 * (quarter % 2) + l] >> (4 * (quarter / 2))) & 15;
    return (low | ((qh[32 * half + l] >> (2 * quarter)) & 3) << 4) - 32;
  }
  ENGINE_HD int sub_scale(int j) const { return scales[j]; }
};

// The sixteen levels of the IQ4 formats.
ENGINE_HD inline int iq4_level(int index) {
  constexpr std::int8_t kLevels[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                       1,    13,   25,  38,  53,  69,  89,  113};
  return kLevels[index];
}

struct BlockIQ4_NL {
  static constexpr int kElements = 32, kSubBlock = 32;
  static constexpr Minimum kMinimum = Minimum::none;
  std::uint16_t d;
  std::uint8_t qs[16];
  ENGINE_HD int quant(int i) const { return iq4_level(i < 16 ? qs[i] & 15 : qs[i - 16] >> 4); }
  ENGINE_HD int sub_scale(int) const { return 1; }
};

struct BlockIQ4_XS {
  static constexpr int kElements = 256, kSubBlock = 32;
  static constexpr Minimum kMinimum = Minimum::none;
  std::uint16_t d;
  std::uint16_t scales_h;
  std::uint8_t scales_l[4];
  std::uint8_t qs[128];
  ENGINE_HD int quant(int i) const {
    const int byte = qs[16 * (i / 32) + i % 16];
    return iq4_level(i % 32 < 16 ? byte & 15 : byte >> 4);
  }
  ENGINE_HD int sub_scale(int j) const {
    return (((scales_l[j / 2] >> (4 * (j % 2))) & 15) | ((scales_h >> (2 * j)) & 3) << 4) - 32;
  }
};

static_assert(sizeof(BlockQ4_0) == 18 && sizeof(BlockQ4_1) == 20);
static_assert(sizeof(BlockQ5_0) == 22 && sizeof(BlockQ5_1) == 24);
static_assert(sizeof(BlockQ8_0) == 34);
static_assert(sizeof(BlockQ2_K) == 84 && sizeof(BlockQ3_K) == 110);
static_assert(sizeof(BlockQ4_K) == 144 && sizeof(BlockQ5_K) == 176 && sizeof(BlockQ6_K) == 210);
static_assert(sizeof(BlockIQ4_NL) == 18 && sizeof(BlockIQ4_XS) == 136);

// Weight i of a block, 0 <= i < kElements.
template <class Block>
ENGINE_HD inline float decode(const Block& block, int i) {
  const int j = i / Block::kSubBlock;
  const float scaled = f32_from_f16(block.d) * static_cast<float>(block.sub_scale(j)) *
                       static_cast<float>(block.quant(i));
  if constexpr (Block::kMinimum == Minimum::subtract)
    return scaled - f32_from_f16(block.dmin) * static_cast<float>(block.sub_min(j));
  else if constexpr (Block::kMinimum == Minimum::add)
    return scaled + f32_from_f16(block.m);
  else
    return scaled;
}

// Calls visitor.template operator()<Block>() with the block struct of a quantised type that has one
// above; returns false for any other type.
template <class Visitor>
ENGINE_HD bool visit_block(Type type, Visitor&& visitor) {
  switch (type) {
    case Type::q4_0:
      visitor.template operator()<BlockQ4_0>();
      return true;
    case Type::q4_1:
      visitor.template operator()<BlockQ4_1>();
      return true;
    case Type::q5_0:
      visitor.template operator()<BlockQ5_0>();
      return true;
    case Type::q5_1:
      visitor.template operator()<BlockQ5_1>();
      return true;
    case Type::q8_0:
      visitor.template operator()<BlockQ8_0>();
      return true;
    case Type::q2_k:
      visitor.template operator()<BlockQ2_K>();
      return true;
    case Type::q3_k:
      visitor.template operator()<BlockQ3_K>();
      return true;
    case Type::q4_k:
      visitor.template operator()<BlockQ4_K>();
      return true;
    case Type::q5_k:
      visitor.template operator()<BlockQ5_K>();
      return true;
    case Type::q6_k:
      visitor.template operator()<BlockQ6_K>();
      return true;
    case Type::iq4_nl:
      visitor.template operator()<BlockIQ4_NL>();
      return true;
    case Type::iq4_xs:
      visitor.template operator()<BlockIQ4_XS>();
      return true;
    default:
      return false;
  }
}

}  // namespace engine::gguf
