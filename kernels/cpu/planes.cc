#include "kernels/cpu/planes.h"

#include <cstring>
#include <type_traits>

namespace engine::cpu {
namespace {

using gguf::Type;

// Calls fn.operator()<Format>() for a type with planes.
template <class Fn>
bool visit_format(Type type, Fn&& fn) {
  switch (type) {
    case Type::q8_0:
      fn.template operator()<Q8_0Planes>();
      return true;
    case Type::q5_0:
      fn.template operator()<Q5_0Planes>();
      return true;
    case Type::q4_k:
      fn.template operator()<Q4_KPlanes>();
      return true;
    case Type::q6_k:
      fn.template operator()<Q6_KPlanes>();
      return true;
    default:
      return false;
  }
}

void put_half(std::uint8_t* at, int r, std::uint16_t value) { std::memcpy(at + 2 * r, &value, 2); }

std::uint16_t get_half(const std::uint8_t* at, int r) {
  std::uint16_t value;
  std::memcpy(&value, at + 2 * r, 2);
  return value;
}

// Byte c of row r's word in plane `index` of [..][16 rows] words.
constexpr int word_byte(int index, int r, int c) { return 64 * index + 4 * r + c; }

void put_word(std::uint8_t* plane, int index, int r, std::uint32_t word) {
  std::memcpy(plane + word_byte(index, r, 0), &word, sizeof word);
}

// Stores row r's unsigned values of a block: words[k] holds the four bytes of quad k.
template <class Format>
void put_quants(std::uint8_t* block, int r, const std::uint32_t (&words)[8]) {
  if constexpr (std::is_same_v<Format, Q8_0Planes>) {
    for (int k = 0; k < 8; ++k) put_word(block, k, r, words[k]);
  } else {
    for (int m = 0; m < 4; ++m)
      put_word(block, m, r, (words[2 * m] & 0x0F0F0F0Fu) | (words[2 * m + 1] & 0x0F0F0F0Fu) << 4);
  }
  if constexpr (std::is_same_v<Format, Q5_0Planes>) {
    std::uint32_t bits = 0;
    for (int k = 0; k < 8; ++k) bits |= ((words[k] >> 4) & 0x01010101u) << k;
    put_word(block + Format::kBits, 0, r, bits);
  }
  if constexpr (std::is_same_v<Format, Q6_KPlanes>) {
    std::uint32_t bits[2] = {};
    for (int k = 0; k < 8; ++k) bits[k / 4] |= ((words[k] >> 4) & 0x03030303u) << (2 * (k % 4));
    for (int half = 0; half < 2; ++half) put_word(block + Format::kBits, half, r, bits[half]);
  }
}

// The unsigned values of 32 elements of a file block from `first` on, as the words of eight quads.
template <class Format>
void unsigned_quads(const typename Format::Block& from, int first, std::uint32_t (&words)[8]) {
  std::uint8_t values[32];
  for (int i = 0; i < 32; ++i)
    values[i] = static_cast<std::uint8_t>(from.quant(first + i) + Format::kOffset);
  std::memcpy(words, values, sizeof words);
}

template <class Format>
int get_quant(const std::uint8_t* block, int r, int i) {
  const int quad = i / 4, c = i % 4;
  if constexpr (std::is_same_v<Format, Q8_0Planes>) {
    return block[word_byte(quad, r, c)] - Format::kOffset;
  } else {
    int u = (block[word_byte(quad / 2, r, c)] >> (4 * (quad % 2))) & 15;
    if constexpr (std::is_same_v<Format, Q5_0Planes>)
      u |= ((block[Format::kBits + word_byte(0, r, c)] >> quad) & 1) << 4;
    if constexpr (std::is_same_v<Format, Q6_KPlanes>)
      u |= ((block[Format::kBits + word_byte(quad / 4, r, c)] >> (2 * (quad % 4))) & 3) << 4;
    return u - Format::kOffset;
  }
}

// Scales of block b (of 32) of one file block, for row r of the group.
template <class Format>
void put_scales(std::uint8_t* head, std::uint8_t* block, int r, int b,
                const typename Format::Block& from) {
  if constexpr (std::is_same_v<Format, Q4_KPlanes>) {
    put_half(head + Format::kHeadD, r, from.d);
    put_half(head + Format::kHeadDmin, r, from.dmin);
    block[Format::kScales + r] = static_cast<std::uint8_t>(from.sub_scale(b));
    block[Format::kMinima + r] = static_cast<std::uint8_t>(from.sub_min(b));
  } else if constexpr (std::is_same_v<Format, Q6_KPlanes>) {
    put_half(head + Format::kHeadD, r, from.d);
    for (int half = 0; half < 2; ++half)
      block[Format::kScales + 16 * half + r] =
          static_cast<std::uint8_t>(from.sub_scale(2 * b + half));
  } else {
    put_half(block + Format::kD, r, from.d);
  }
}

template <class Format>
void pack(const std::byte* rows, int n_rows, int n_in, std::uint8_t* group) {
  using Block = typename Format::Block;
  const int n_blocks = n_in / 32;
  if (n_rows < kGroup) std::memset(group, 0, group_bytes<Format>(n_blocks));
  const std::size_t row_bytes = static_cast<std::size_t>(n_in / Block::kElements) * sizeof(Block);
  for (int r = 0; r < n_rows; ++r) {
    const std::byte* row = rows + static_cast<std::size_t>(r) * row_bytes;
    for (int b = 0; b < n_blocks; ++b) {
      Block from;
      std::memcpy(&from, row + static_cast<std::size_t>(b / Format::kSuperBlocks) * sizeof(Block),
                  sizeof(Block));
      std::uint8_t* block = group + block_offset<Format>(b);
      const int inner = b % Format::kSuperBlocks;
      put_scales<Format>(group + head_offset<Format>(b), block, r, inner, from);
      std::uint32_t words[8];
      unsigned_quads<Format>(from, 32 * inner, words);
      put_quants<Format>(block, r, words);
    }
  }
}

// Weight (r, i of block b) with the roundings of gguf::decode: only the final difference rounds.
template <class Format>
float decode(const std::uint8_t* group, int b, int r, int i) {
  const std::uint8_t* head = group + head_offset<Format>(b);
  const std::uint8_t* block = group + block_offset<Format>(b);
  const float q = static_cast<float>(get_quant<Format>(block, r, i));
  const auto half = [r](const std::uint8_t* at) { return gguf::f32_from_f16(get_half(at, r)); };
  if constexpr (std::is_same_v<Format, Q4_KPlanes>) {
    const float scaled =
        half(head + Format::kHeadD) * static_cast<float>(block[Format::kScales + r]) * q;
    return scaled - half(head + Format::kHeadDmin) * static_cast<float>(block[Format::kMinima + r]);
  } else if constexpr (std::is_same_v<Format, Q6_KPlanes>) {
    const auto s = static_cast<std::int8_t>(block[Format::kScales + 16 * (i / 16) + r]);
    return half(head + Format::kHeadD) * static_cast<float>(s) * q;
  } else {
    return half(block + Format::kD) * q;
  }
}

}  // namespace

bool has_planes(Type type) {
  return visit_format(type, []<class Format>() {});
}

std::size_t planes_bytes(Type type, int n_out, int n_in) {
  std::size_t bytes = 0;
  visit_format(type, [&]<class Format>() {
    bytes =
        static_cast<std::size_t>((n_out + kGroup - 1) / kGroup) * group_bytes<Format>(n_in / 32);
  });
  return bytes;
}

void pack_group(Type type, const std::byte* rows, int n_rows, int n_in, std::byte* dst) {
  visit_format(type, [&]<class Format>() {
    pack<Format>(rows, n_rows, n_in, reinterpret_cast<std::uint8_t*>(dst));
  });
}

void decode_row(const op::Matrix& w, int row, float* y) {
  visit_format(w.type, [&]<class Format>() {
    const auto* group = reinterpret_cast<const std::uint8_t*>(w.data) +
                        static_cast<std::size_t>(row / kGroup) * group_bytes<Format>(w.n_in / 32);
    for (int i = 0; i < w.n_in; ++i) y[i] = decode<Format>(group, i / 32, row % kGroup, i % 32);
  });
}

}  // namespace engine::cpu
