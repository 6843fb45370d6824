// How the CUDA backend stores Q8_0, Q5_0, Q4_K and Q6_K matrices (Layout::device_planes).
//
// Rows come in groups of 4 (the last one padded with zero rows), inputs in blocks of 32, and those in
// segments of 8, of which a row's last one may have fewer. Lane 4*b + r of a warp has block b of a segment
// of row r, so a warp reads a segment of a group at once and each of its loads is one contiguous piece.
// Within a segment every plane is [blocks][4 rows] of what a block has:
//
//            quants            bits above the nibble   scales               head of 8 blocks, [4 rows]
//   Q8_0     signed bytes 32                           d f16
//   Q5_0     nibbles 16        one bit, u32            d f16
//   Q4_K     nibbles 16                                s u8, n u8           d f16, dmin f16
//   Q6_K     nibbles 16        two bits, 2 u32         s i8 of each half    d f16
//
// But for Q8_0, quants are stored unsigned, quant + kOffset. In units of quads, four inputs: the nibbles are
// 4 words, of which word m holds quad 2m in the low and 2m+1 in the high nibbles; of the bits above, byte c of
// the word has those of column c, quad k at bit k (Q5_0), or at bit 2*(k % 4) of word k/4 (Q6_K). The 32
// bytes of Q8_0 are two planes of 16, of quads 0..3 and 4..7. s, n and d are as in op/matmul.h; Q4_K's s and n,
// packed into 6 bits in the file, have a byte each.
//
// A group holds the quants of all segments, then the bits, the scales and the heads of all segments; it is
// padded to 32 bytes, the unit in which a GPU reads memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gguf/types.h"
#include "kernels/op/matrix.h"
#include "kernels/op/order.h"

namespace engine::cuda {

inline constexpr int kGroup = 4;  // rows interleaved

// Bytes of a block's quants, bits above the nibble and scales, and of a row's head.
struct Q8_0Planes {
  using Block = gguf::BlockQ8_0;
  static constexpr int kOffset = 0, kQuants = 32, kBits = 0, kScales = 2, kHead = 0;
};
struct Q5_0Planes {
  using Block = gguf::BlockQ5_0;
  static constexpr int kOffset = 16, kQuants = 16, kBits = 4, kScales = 2, kHead = 0;
};
struct Q4_KPlanes {
  using Block = gguf::BlockQ4_K;
  static constexpr int kOffset = 0, kQuants = 16, kBits = 0, kScales = 2, kHead = 4;
};
struct Q6_KPlanes {
  using Block = gguf::BlockQ6_K;
  static constexpr int kOffset = 32, kQuants = 16, kBits = 8, kScales = 2, kHead = 2;
};

// Where the parts of a group lie, in bytes from its begin.
template <class Format>
struct GroupLayout {
  int n_blocks;  // of a row

  ENGINE_HD constexpr int bits() const { return kGroup * Format::kQuants * n_blocks; }
  ENGINE_HD constexpr int scales() const { return bits() + kGroup * Format::kBits * n_blocks; }
  ENGINE_HD constexpr int heads() const { return scales() + kGroup * Format::kScales * n_blocks; }
  ENGINE_HD constexpr int bytes() const {
    const int n_heads = Format::kHead == 0 ? 0 : n_blocks / op::kSegmentBlocks;
    return (heads() + kGroup * Format::kHead * n_heads + 31) / 32 * 32;
  }

  // Blocks of a segment.
  ENGINE_HD constexpr int count(int segment) const {
    const int rest = n_blocks - segment * op::kSegmentBlocks;
    return rest < op::kSegmentBlocks ? rest : op::kSegmentBlocks;
  }
  // Piece `piece` of 16 bytes of the quants of the segment's lane; a piece begins at a multiple of 16.
  ENGINE_HD constexpr int quants_of(int segment, int lane, int piece) const {
    const int before = piece == 0 ? 0 : kGroup * count(segment);
    return kGroup * op::kSegmentBlocks * Format::kQuants * segment + 16 * (before + lane);
  }
  ENGINE_HD constexpr int bits_of(int segment, int lane) const {
    return bits() + Format::kBits * (kGroup * op::kSegmentBlocks * segment + lane);
  }
  ENGINE_HD constexpr int scales_of(int segment, int lane) const {
    return scales() + Format::kScales * (kGroup * op::kSegmentBlocks * segment + lane);
  }
  ENGINE_HD constexpr int head_of(int segment, int row) const {
    return heads() + Format::kHead * (kGroup * segment + row);
  }
};

// Calls fn.operator()<Format>() and returns true if the type has planes.
template <class Fn>
ENGINE_HD bool visit_format(gguf::Type type, const Fn& fn) {
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

// Weight i of a row of a group, decoded exactly as gguf::decode does. load(const T*) reads a T.
template <class Format, class Load>
ENGINE_HD inline float decode(const std::byte* group, GroupLayout<Format> layout, int row, int i,
                              const Load& load) {
  const int block = i / op::kBlock, segment = block / op::kSegmentBlocks;
  const int lane = kGroup * (block % op::kSegmentBlocks) + row, in_block = i % op::kBlock;
  const int quad = in_block / 4, c = in_block % 4;
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(group);
  const auto half = [&](int at) {
    return gguf::f32_from_f16(load(reinterpret_cast<const std::uint16_t*>(bytes + at)));
  };
  const int scales = layout.scales_of(segment, lane);
  if constexpr (Format::kQuants == 32) {
    const int at = layout.quants_of(segment, lane, quad / 4) + in_block % 16;
    return half(scales) *
           static_cast<float>(load(reinterpret_cast<const std::int8_t*>(bytes + at)));
  } else {
    const int at = layout.quants_of(segment, lane, 0) + 4 * (quad / 2) + c;
    int quant = load(bytes + at) >> 4 * (quad % 2) & 15;
    const int bits = layout.bits_of(segment, lane);
    if constexpr (Format::kBits == 4) quant |= (load(bytes + bits + c) >> quad & 1) << 4;
    if constexpr (Format::kBits == 8)
      quant |= (load(bytes + bits + 4 * (quad / 4) + c) >> 2 * (quad % 4) & 3) << 4;
    const auto q = static_cast<float>(quant - Format::kOffset);
    if constexpr (Format::kHead == 0) return half(scales) * q;
    const int head = layout.head_of(segment, row);
    if constexpr (Format::kHead == 4)
      return half(head) * static_cast<float>(load(bytes + scales)) * q -
             half(head + 2) * static_cast<float>(load(bytes + scales + 1));
    const auto* halves = reinterpret_cast<const std::int8_t*>(bytes + scales);
    return half(head) * static_cast<float>(load(halves + in_block / 16)) * q;
  }
}

// True if matrices of the type can be stored this way.
bool has_planes(gguf::Type type);
// Bytes of the matrix (its data is not read) in Layout::device_planes.
std::size_t planes_bytes(const op::Matrix& w);
// Converts n_rows file rows (1..4; the rest of the group becomes zero rows) into a group of w, whose memory
// begins at `to`. Different groups may be packed at the same time.
void pack_group(const op::Matrix& w, int group, const std::byte* rows, int n_rows, std::byte* to);
// y[i] = weight (row, i) of w.
void decode_row(const op::Matrix& w, int row, float* y);

}  // namespace engine::cuda
