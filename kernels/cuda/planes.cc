#include "kernels/cuda/planes.h"

#include <cstring>

namespace engine::cuda {
namespace {

template <class Format>
std::size_t group_bytes(const op::Matrix& w) {
  return static_cast<std::size_t>(GroupLayout<Format>{w.n_in / op::kBlock}.bytes());
}

// The unsigned values of 32 elements of a file block from `first` on, as the words of eight quads.
template <class Format>
void quads_of(const typename Format::Block& from, int first, std::uint32_t (&quads)[8]) {
  std::uint8_t values[op::kBlock];
  for (int i = 0; i < op::kBlock; ++i)
    values[i] = static_cast<std::uint8_t>(from.quant(first + i) + Format::kOffset);
  std::memcpy(quads, values, sizeof quads);
}

// Block `block` of the group's row; inner: its place in the file's block.
template <class Format>
void put_block(const typename Format::Block& from, int inner, GroupLayout<Format> layout, int row,
               int block, std::byte* group) {
  const int segment = block / op::kSegmentBlocks;
  const int lane = kGroup * (block % op::kSegmentBlocks) + row;
  const auto put = [&](int at, const auto& value) {
    std::memcpy(group + at, &value, sizeof value);
  };

  std::uint32_t quads[8];
  quads_of<Format>(from, op::kBlock * inner, quads);
  if constexpr (Format::kQuants == 32) {
    for (int k = 0; k < 8; ++k) put(layout.quants_of(segment, lane, k / 4) + 4 * (k % 4), quads[k]);
  } else {
    std::uint32_t bits[2] = {};
    for (int k = 0; k < 8; ++k) {
      if (k % 2 == 1) {
        const std::uint32_t pair = (quads[k - 1] & 0x0F0F0F0Fu) | (quads[k] & 0x0F0F0F0Fu) << 4;
        put(layout.quants_of(segment, lane, 0) + 4 * (k / 2), pair);
      }
      if constexpr (Format::kBits == 4) bits[0] |= (quads[k] >> 4 & 0x01010101u) << k;
      if constexpr (Format::kBits == 8) bits[k / 4] |= (quads[k] >> 4 & 0x03030303u) << 2 * (k % 4);
    }
    std::memcpy(group + layout.bits_of(segment, lane), bits, Format::kBits);
  }

  const int scales = layout.scales_of(segment, lane);
  if constexpr (Format::kHead == 0) {
    put(scales, from.d);
  } else {
    put(layout.head_of(segment, row), from.d);
    if constexpr (Format::kHead == 4) {
      put(layout.head_of(segment, row) + 2, from.dmin);
      put(scales, static_cast<std::uint8_t>(from.sub_scale(inner)));
      put(scales + 1, static_cast<std::uint8_t>(from.sub_min(inner)));
    } else {
      put(scales, from.scales[2 * inner]);
      put(scales + 1, from.scales[2 * inner + 1]);
    }
  }
}

template <class Format>
void pack(const std::byte* rows, int n_rows, GroupLayout<Format> layout, std::byte* group) {
  using Block = typename Format::Block;
  constexpr int kInner = Block::kElements / op::kBlock;  // blocks of 32 in a file block
  std::memset(group, 0, static_cast<std::size_t>(layout.bytes()));
  for (int row = 0; row < n_rows; ++row)
    for (int block = 0; block < layout.n_blocks; block += kInner, rows += sizeof(Block)) {
      Block from;
      std::memcpy(&from, rows, sizeof from);
      for (int inner = 0; inner < kInner; ++inner)
        put_block<Format>(from, inner, layout, row, block + inner, group);
    }
}

}  // namespace

bool has_planes(gguf::Type type) {
  return visit_format(type, []<class Format>() {});
}

std::size_t planes_bytes(const op::Matrix& w) {
  std::size_t bytes = 0;
  visit_format(w.type, [&]<class Format>() {
    bytes = static_cast<std::size_t>((w.n_out + kGroup - 1) / kGroup) * group_bytes<Format>(w);
  });
  return bytes;
}

void pack_group(const op::Matrix& w, int group, const std::byte* rows, int n_rows, std::byte* to) {
  visit_format(w.type, [&]<class Format>() {
    pack<Format>(rows, n_rows, {w.n_in / op::kBlock},
                 to + static_cast<std::size_t>(group) * group_bytes<Format>(w));
  });
}

}  // namespace engine::cuda
