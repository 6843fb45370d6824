// Layout::planes: how the CPU backend stores Q8_0, Q5_0, Q4_K and Q6_K matrices.
//
// Rows come in groups of 16 (the last one padded with zero rows), so that a vector holds one value
// of 16 or 8 rows and a row's sum stays in one lane. Inputs come in blocks of 32, eight quads of
// four. Weights are stored unsigned, quant + kOffset; the offset is taken out of the integer sum as
// kOffset * sum(x).
//
//   word[r] of a quad = the four bytes of row r            Q8_0: bytes     [8 quads][16 rows] words
//   nibbles: quad 2m in the low, 2m+1 in the high nibble   others: nibbles [4 pairs][16 rows] words
//   bits above the nibble: byte c of the row's word has those of column c, quad k at bit k (Q5_0,
//   one bit, [16 rows] words) or at bit 2*(k % 4) (Q6_K, two bits, [2 halves][16 rows] words)
//
//          head of 8 blocks          block of 32                                      bytes
//   Q8_0   none                      [quants 512][d f16 x16]                            544
//   Q5_0   none                      [nibbles 256][bits 64][d f16 x16]                  352
//   Q4_K   [d f16 x16][dmin f16 x16] [nibbles 256][s u8 x16][n u8 x16]                  288
//   Q6_K   [d f16 x16][pad 32]       [nibbles 256][bits 128][s i8 x16 of each half]     416
// The pad keeps every block 32-byte aligned and every group a multiple of 64 bytes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gguf/types.h"
#include "kernels/op/matrix.h"

namespace engine::cpu {

inline constexpr int kGroup = 16;  // rows interleaved

struct Q8_0Planes {
  using Block = gguf::BlockQ8_0;
  static constexpr int kOffset = 128, kBlockBytes = 544, kHeadBytes = 0;
  static constexpr int kSuperBlocks = 1;  // blocks of 32 that share one head
  static constexpr int kD = 512;          // where a part begins, in bytes from its block or head
};
struct Q5_0Planes {
  using Block = gguf::BlockQ5_0;
  static constexpr int kOffset = 16, kBlockBytes = 352, kHeadBytes = 0;
  static constexpr int kSuperBlocks = 1;
  static constexpr int kBits = 256, kD = 320;
};
struct Q4_KPlanes {
  using Block = gguf::BlockQ4_K;
  static constexpr int kOffset = 0, kBlockBytes = 288, kHeadBytes = 64;
  static constexpr int kSuperBlocks = 8;
  static constexpr int kScales = 256, kMinima = 272;
  static constexpr int kHeadD = 0, kHeadDmin = 32;
};
struct Q6_KPlanes {
  using Block = gguf::BlockQ6_K;
  static constexpr int kOffset = 32, kBlockBytes = 416, kHeadBytes = 64;
  static constexpr int kSuperBlocks = 8;
  static constexpr int kBits = 256, kScales = 384;  // the scales of the second half 16 bytes on
  static constexpr int kHeadD = 0;
};

// Bytes of one group of 16 rows with n_blocks blocks of 32 inputs.
template <class Format>
constexpr std::size_t group_bytes(int n_blocks) {
  return static_cast<std::size_t>(n_blocks / Format::kSuperBlocks) *
         (Format::kHeadBytes + Format::kSuperBlocks * Format::kBlockBytes);
}

// The head (scales shared by kSuperBlocks blocks) and the bytes of block b of a group.
template <class Format>
constexpr std::size_t head_offset(int b) {
  return group_bytes<Format>(Format::kSuperBlocks) *
         static_cast<std::size_t>(b / Format::kSuperBlocks);
}
template <class Format>
constexpr std::size_t block_offset(int b) {
  return head_offset<Format>(b) + Format::kHeadBytes +
         static_cast<std::size_t>(b % Format::kSuperBlocks) * Format::kBlockBytes;
}

// True for the types that have a planes layout.
bool has_planes(gguf::Type type);
// Bytes of n_out rows of n_in inputs in this layout; has_planes(type).
std::size_t planes_bytes(gguf::Type type, int n_out, int n_in);
// Converts n_rows file rows (1..16; the rest of the group becomes zero rows) into one group at dst.
void pack_group(gguf::Type type, const std::byte* rows, int n_rows, int n_in, std::byte* dst);
// y[i] = weight (row, i) of a planes matrix, decoded exactly as gguf::decode does.
void decode_row(const op::Matrix& w, int row, float* y);

}  // namespace engine::cpu
