#include "kernels/cpu/planes.h"

#include <cstring>
#include <type_traits>

namespace engine::cpu {
namespace {

using gguf::Type;
using op::Layout;

// A group that is being written.
std::uint8_t* writable(const std::uint8_t* at) { return const_cast<std::uint8_t*>(at); }

void put_half(std::uint8_t* at, int r, std::uint16_t value) { std::memcpy(at + 2 * r, &value, 2); }

float get_half(const std::uint8_t* at, int r) {
  std::uint16_t value;
  std::memcpy(&value, at + 2 * r, 2);
  return gguf::f32_from_f16(value);
}

// Byte c of row r's word in plane `index` of [..][16 rows] words.
constexpr int word_byte(int index, int r, int c) { return 64 * index + 4 * r + c; }

void put_word(std::uint8_t* plane, int index, int r, std::uint32_t word) {
  std::memcpy(plane + word_byte(index, r, 0), &word, sizeof word);
}

// Bits shift .. shift + 3 of the words of quads 2m and 2m+1.
std::uint32_t nibble_pair(const std::uint32_t (&words)[8], int m, int shift) {
  const auto nibbles = [&](int k) { return words[k] >> shift & 0x0F0F0F0Fu; };
  return nibbles(2 * m) | nibbles(2 * m + 1) << 4;
}

// Nibbles [4 pairs][16 rows].
void put_nibbles(std::uint8_t* plane, int r, const std::uint32_t (&words)[8], int shift) {
  for (int m = 0; m < 4; ++m) put_word(plane, m, r, nibble_pair(words, m, shift));
}

void put_row_nibbles(std::uint8_t* low, const std::uint32_t (&words)[8]) {
  for (int m = 0; m < 4; ++m) {
    const std::uint32_t word = nibble_pair(words, m, 0);
    std::memcpy(low + 4 * m, &word, sizeof word);
  }
}

int nibble_of(std::uint8_t byte, int quad) { return byte >> (4 * (quad % 2)) & 15; }

int get_nibble(const std::uint8_t* plane, int r, int quad, int c) {
  return nibble_of(plane[word_byte(quad / 2, r, c)], quad);
}

// Stores row r's unsigned values of block b: words[k] holds the four bytes of quad k.
template <class Format>
void put_quants(const Group<Format>& group, int b, int r, const std::uint32_t (&words)[8]) {
  std::uint8_t* quants = writable(group.block_quants(b));
  if constexpr (std::is_same_v<Format, Q8_0Planes>) {
    for (int k = 0; k < 8; ++k) put_word(quants, k, r, words[k]);
  } else if constexpr (std::is_same_v<Format, Q8_0SplitPlanes>) {
    put_nibbles(quants, r, words, 4);
    put_row_nibbles(writable(group.row_low(r)) + b * kRowLowBytes, words);
  } else {
    put_nibbles(quants, r, words, 0);
  }
  if constexpr (std::is_same_v<Format, Q5_0Planes>) {
    std::uint32_t bits = 0;
    for (int k = 0; k < 8; ++k) bits |= ((words[k] >> 4) & 0x01010101u) << k;
    put_word(quants + kBitsAt, 0, r, bits);
  }
  if constexpr (std::is_same_v<Format, Q6_KPlanes>) {
    std::uint32_t bits[2] = {};
    for (int k = 0; k < 8; ++k) bits[k / 4] |= ((words[k] >> 4) & 0x03030303u) << (2 * (k % 4));
    for (int half = 0; half < 2; ++half) put_word(quants + kBitsAt, half, r, bits[half]);
  }
}

template <class Format>
int get_quant(const Group<Format>& group, int b, int r, int i) {
  const std::uint8_t* quants = group.block_quants(b);
  const int quad = i / 4, c = i % 4;
  int u = 0;
  if constexpr (std::is_same_v<Format, Q8_0Planes>) {
    u = quants[word_byte(quad, r, c)];
  } else if constexpr (std::is_same_v<Format, Q8_0SplitPlanes>) {
    const std::uint8_t low = group.row_low(r)[b * kRowLowBytes + 4 * (quad / 2) + c];
    u = get_nibble(quants, r, quad, c) << 4 | nibble_of(low, quad);
  } else {
    u = get_nibble(quants, r, quad, c);
  }
  if constexpr (std::is_same_v<Format, Q5_0Planes>)
    u |= (quants[kBitsAt + word_byte(0, r, c)] >> quad & 1) << 4;
  if constexpr (std::is_same_v<Format, Q6_KPlanes>)
    u |= (quants[kBitsAt + word_byte(quad / 4, r, c)] >> (2 * (quad % 4)) & 3) << 4;
  return u - Format::kOffset;
}

// Scales of block b for row r; inner: b's place in the file's block.
template <class Format>
void put_scales(const Group<Format>& group, int b, int r, const typename Format::Block& from,
                int inner) {
  std::uint8_t* scales = writable(group.block_scales(b));
  std::uint8_t* head = writable(group.head(b));
  if constexpr (std::is_same_v<Format, Q4_KPlanes>) {
    put_half(head, r, from.d);
    put_half(head + kDminAt, r, from.dmin);
    scales[r] = static_cast<std::uint8_t>(from.sub_scale(inner));
    scales[kSecondScale + r] = static_cast<std::uint8_t>(from.sub_min(inner));
  } else if constexpr (std::is_same_v<Format, Q6_KPlanes>) {
    put_half(head, r, from.d);
    scales[r] = static_cast<std::uint8_t>(from.sub_scale(2 * inner));
    scales[kSecondScale + r] = static_cast<std::uint8_t>(from.sub_scale(2 * inner + 1));
  } else {
    put_half(scales, r, from.d);
  }
}

// The unsigned values of 32 elements of a file block from `first` on, as the words of eight quads.
template <class Format>
void unsigned_quads(const typename Format::Block& from, int first, std::uint32_t (&words)[8]) {
  std::uint8_t values[op::kBlock];
  for (int i = 0; i < op::kBlock; ++i)
    values[i] = static_cast<std::uint8_t>(from.quant(first + i) + Format::kOffset);
  std::memcpy(words, values, sizeof words);
}

template <class Format>
void clear(const Group<Format>& group, int n_blocks) {
  std::memset(writable(group.quants), 0, Group<Format>::bytes(n_blocks));
  std::memset(writable(group.low), 0, static_cast<std::size_t>(n_blocks) * Format::kLowBytes);
}

template <class Format>
void pack(const Group<Format>& group, const std::byte* rows, int n_rows, int n_in) {
  using Block = typename Format::Block;
  constexpr int kInner = Block::kElements / op::kBlock;  // blocks of 32 in a file block
  const int n_blocks = n_in / op::kBlock;
  if (n_rows < kGroup) clear(group, n_blocks);
  const std::byte* at = rows;
  for (int r = 0; r < n_rows; ++r)
    for (int b = 0; b < n_blocks; b += kInner, at += sizeof(Block)) {
      Block from;
      std::memcpy(&from, at, sizeof from);
      for (int inner = 0; inner < kInner; ++inner) {
        std::uint32_t words[8];
        unsigned_quads<Format>(from, op::kBlock * inner, words);
        put_quants<Format>(group, b + inner, r, words);
        put_scales<Format>(group, b + inner, r, from, inner);
      }
    }
}

// Weight (r, i of block b) with the roundings of gguf::decode: only the final difference rounds.
template <class Format>
float decode(const Group<Format>& group, int b, int r, int i) {
  const std::uint8_t *scales = group.block_scales(b), *head = group.head(b);
  const auto q = static_cast<float>(get_quant<Format>(group, b, r, i));
  if constexpr (std::is_same_v<Format, Q4_KPlanes>) {
    const float scaled = get_half(head, r) * static_cast<float>(scales[r]) * q;
    return scaled - get_half(head + kDminAt, r) * static_cast<float>(scales[kSecondScale + r]);
  } else if constexpr (std::is_same_v<Format, Q6_KPlanes>) {
    const auto s = static_cast<std::int8_t>(scales[kSecondScale * (i / 16) + r]);
    return get_half(head, r) * static_cast<float>(s) * q;
  } else {
    return get_half(scales, r) * q;
  }
}

}  // namespace

bool has_layout(Type type, Layout layout) {
  return layout == Layout::rows || visit_format(type, layout, []<class Format>() {});
}

std::size_t planes_bytes(const op::Matrix& w) {
  std::size_t bytes = 0;
  visit_format(w.type, w.layout, [&]<class Format>() {
    const int n_blocks = w.n_in / op::kBlock;
    bytes =
        static_cast<std::size_t>((w.n_out + kGroup - 1) / kGroup) *
        (Group<Format>::bytes(n_blocks) + static_cast<std::size_t>(n_blocks) * Format::kLowBytes);
  });
  return bytes;
}

void pack_group(const op::Matrix& w, int group, const std::byte* rows, int n_rows, std::byte* to) {
  op::Matrix at = w;
  at.data = to;
  visit_format(w.type, w.layout,
               [&]<class Format>() { pack(Group<Format>(at, group), rows, n_rows, w.n_in); });
}

void decode_row(const op::Matrix& w, int row, float* y) {
  visit_format(w.type, w.layout, [&]<class Format>() {
    const Group<Format> group(w, row / kGroup);
    for (int i = 0; i < w.n_in; ++i)
      y[i] = decode<Format>(group, i / op::kBlock, row % kGroup, i % op::kBlock);
  });
}

}  // namespace engine::cpu
