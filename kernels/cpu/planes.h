// How the CPU backend stores Q8_0, Q5_0, Q4_K and Q6_K matrices (Layout::planes, split_planes).
//
// Rows come in groups of 16 (the last one padded with zero rows), so that a vector holds one value
// of 16, 8 or 4 rows and a row's sum stays in one lane. Inputs come in blocks of 32, eight quads of
// four. Weights are stored unsigned, quant + kOffset; the offset is taken out of the integer sum as
// kOffset * sum(x).
//
//   word[r] of a quad = the four bytes of row r            Q8_0: bytes     [8 quads][16 rows] words
//   nibbles: quad 2m in the low, 2m+1 in the high nibble   others: nibbles [4 pairs][16 rows] words
//   bits above the nibble: byte c of the row's word has those of column c, quad k at bit k (Q5_0,
//   one bit, [16 rows] words) or at bit 2*(k % 4) (Q6_K, two bits, [2 halves][16 rows] words)
//
// A group holds the quants of all blocks, then the scales of all blocks, then the heads, one for
// every eight blocks; it is padded to 64 bytes, so that every vector of quants is aligned.
//
//                 quants of a block           scales of a block           head of 8 blocks
//   Q8_0          [bytes 512]                 [d f16 x16]
//   Q8_0, split   [high nibbles 256]          [d f16 x16]
//   Q5_0          [nibbles 256][bits 64]      [d f16 x16]
//   Q4_K          [nibbles 256]               [s u8 x16][n u8 x16]        [d f16 x16][dmin f16 x16]
//   Q6_K          [nibbles 256][bits 128]     [s i8 x16 of each half]     [d f16 x16]
//
// In split planes the low nibbles follow the last group, row by row: byte 4m + c of a row's 16 bytes of a
// block has those of column c of quads 2m and 2m+1. The high ones alone tell a logit within known bounds
// (op/head_screen.h), and what may yet win needs the low ones of a single row: 5 cache lines for 640 inputs.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gguf/types.h"
#include "kernels/op/matrix.h"
#include "kernels/op/order.h"

namespace engine::cpu {

inline constexpr int kGroup = 16;      // rows interleaved
inline constexpr int kHeadBlocks = 8;  // blocks that share a head

struct Q8_0Planes {
  using Block = gguf::BlockQ8_0;
  static constexpr int kOffset = 128;
  static constexpr int kQuantBytes = 512, kLowBytes = 0, kScaleBytes = 32, kHeadBytes = 0;
};
struct Q8_0SplitPlanes {
  using Block = gguf::BlockQ8_0;
  static constexpr int kOffset = 128;
  static constexpr int kQuantBytes = 256, kLowBytes = 256, kScaleBytes = 32, kHeadBytes = 0;
};
struct Q5_0Planes {
  using Block = gguf::BlockQ5_0;
  static constexpr int kOffset = 16;
  static constexpr int kQuantBytes = 320, kLowBytes = 0, kScaleBytes = 32, kHeadBytes = 0;
};
struct Q4_KPlanes {
  using Block = gguf::BlockQ4_K;
  static constexpr int kOffset = 0;
  static constexpr int kQuantBytes = 256, kLowBytes = 0, kScaleBytes = 32, kHeadBytes = 64;
};
struct Q6_KPlanes {
  using Block = gguf::BlockQ6_K;
  static constexpr int kOffset = 32;
  static constexpr int kQuantBytes = 384, kLowBytes = 0, kScaleBytes = 32, kHeadBytes = 32;
};
inline constexpr int kRowLowBytes = 16;  // of a row's low nibbles of a block
inline constexpr int kBitsAt = 256;      // the bits above the nibble, within a block's quants
inline constexpr int kSecondScale = 16;  // Q4_K's n, Q6_K's s of the second half, within the scales
inline constexpr int kDminAt = 32;       // within Q4_K's head

// Groups of a matrix; the last one may be padded.
[[gnu::always_inline]] inline int n_groups(const op::Matrix& w) {
  return (w.n_out + kGroup - 1) / kGroup;
}

// Where the parts of one group begin.
template <class Format>
struct Group {
  const std::uint8_t *quants, *low, *scales, *heads;
  std::size_t row_low_bytes;

  // Inlined everywhere, because leaves compiled for different instruction sets must not share code.
  [[gnu::always_inline]] static constexpr std::size_t bytes(int n_blocks) {
    const std::size_t n = static_cast<std::size_t>(n_blocks);
    const std::size_t all =
        n * (Format::kQuantBytes + Format::kScaleBytes) + n / kHeadBlocks * Format::kHeadBytes;
    return (all + 63) / 64 * 64;
  }

  [[gnu::always_inline]] Group(const op::Matrix& w, int group) {
    const auto* base = reinterpret_cast<const std::uint8_t*>(w.data);
    const std::size_t n = static_cast<std::size_t>(w.n_in / op::kBlock),
                      g = static_cast<std::size_t>(group),
                      n_all = static_cast<std::size_t>(n_groups(w));
    quants = base + g * bytes(w.n_in / op::kBlock);
    scales = quants + n * Format::kQuantBytes;
    heads = scales + n * Format::kScaleBytes;
    low = base + n_all * bytes(w.n_in / op::kBlock) + g * n * Format::kLowBytes;
    row_low_bytes = n * kRowLowBytes;
  }

  [[gnu::always_inline]] const std::uint8_t* block_quants(int b) const {
    return quants + b * Format::kQuantBytes;
  }
  // Row r's low nibbles of all blocks, each row behind the one before.
  [[gnu::always_inline]] const std::uint8_t* row_low(int r) const {
    return low + static_cast<std::size_t>(r) * row_low_bytes;
  }
  [[gnu::always_inline]] const std::uint8_t* block_scales(int b) const {
    return scales + b * Format::kScaleBytes;
  }
  [[gnu::always_inline]] const std::uint8_t* head(int b) const {
    return heads + b / kHeadBlocks * Format::kHeadBytes;
  }
};

// Calls fn.operator()<Format>() and returns true if the type has this layout of planes here.
template <class Fn>
[[gnu::always_inline]] inline bool visit_format(gguf::Type type, op::Layout layout, const Fn& fn) {
  if (layout == op::Layout::rows || layout == op::Layout::device_planes) return false;
  if (layout == op::Layout::split_planes) {
    if (type != gguf::Type::q8_0) return false;
    fn.template operator()<Q8_0SplitPlanes>();
    return true;
  }
  switch (type) {
    case gguf::Type::q8_0:
      fn.template operator()<Q8_0Planes>();
      return true;
    case gguf::Type::q5_0:
      fn.template operator()<Q5_0Planes>();
      return true;
    case gguf::Type::q4_k:
      fn.template operator()<Q4_KPlanes>();
      return true;
    case gguf::Type::q6_k:
      fn.template operator()<Q6_KPlanes>();
      return true;
    default:
      return false;
  }
}

// True if matrices of the type can be stored in the layout.
bool has_layout(gguf::Type type, op::Layout layout);
// Bytes of the matrix (its data is not read) in its layout, planes or split_planes.
std::size_t planes_bytes(const op::Matrix& w);
// Converts n_rows file rows (1..16; the rest of the group becomes zero rows) into a group of w, whose
// memory begins at `to`. Different groups may be packed at the same time.
void pack_group(const op::Matrix& w, int group, const std::byte* rows, int n_rows, std::byte* to);
// y[i] = weight (row, i) of w, decoded exactly as gguf::decode does.
void decode_row(const op::Matrix& w, int row, float* y);

}  // namespace engine::cpu
