// One weight of a matrix of any type, for kernels that read few of them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gguf/types.h"
#include "kernels/cuda/planes.h"
#include "kernels/cuda/ptx.cuh"
#include "kernels/op/matrix.h"

namespace engine::ENGINE_DEVICE_NS {

// Block `index` of an array in global memory, to be read plainly by gguf::decode.
template <class Block>
__device__ __forceinline__ const Block& block_at(const std::byte* data, std::ptrdiff_t index) {
  const Block* block = reinterpret_cast<const Block*>(data) + index;
  // The executor does not see plain reads: it is shown the block's ends. A card's compiler drops
  // loads that nobody uses.
  const auto* halves = reinterpret_cast<const std::uint16_t*>(block);
  static_cast<void>(load_readonly(halves));
  static_cast<void>(load_readonly(halves + sizeof(Block) / sizeof(std::uint16_t) - 1));
  return *block;
}

// w[row, i] of Layout::rows, rounded as gguf/types.h says.
__device__ __forceinline__ float decode_row_weight(const op::Matrix& w, int row, int i) {
  const std::ptrdiff_t at = static_cast<std::ptrdiff_t>(row) * w.n_in + i;
  if (w.type == gguf::Type::f32) return load_readonly(reinterpret_cast<const float*>(w.data) + at);
  if (w.type == gguf::Type::f16 || w.type == gguf::Type::bf16) {
    const std::uint16_t half = load_readonly(reinterpret_cast<const std::uint16_t*>(w.data) + at);
    return w.type == gguf::Type::f16 ? gguf::f32_from_f16(half) : gguf::f32_from_bf16(half);
  }
  float value = 0.0f;
  gguf::visit_block(w.type, [&]<class Block>() {
    value = gguf::decode(block_at<Block>(w.data, at / Block::kElements),
                         static_cast<int>(at % Block::kElements));
  });
  return value;
}

// The same of Layout::device_planes.
__device__ __forceinline__ float decode_plane_weight(const op::Matrix& w, int row, int i) {
  float value = 0.0f;
  cuda::visit_format(w.type, [&]<class Format>() {
    const cuda::GroupLayout<Format> layout{w.n_in / op::kBlock};
    const std::ptrdiff_t group = row / cuda::kGroup;
    value = cuda::decode<Format>(w.data + group * layout.bytes(), layout, row % cuda::kGroup, i,
                                 [](const auto* p) { return load_readonly(p); });
  });
  return value;
}

// w[row, i] of a layout that the device reads.
__device__ __forceinline__ float decode_weight(const op::Matrix& w, int row, int i) {
  return w.layout == op::Layout::device_planes ? decode_plane_weight(w, row, i)
                                               : decode_row_weight(w, row, i);
}

}  // namespace engine::ENGINE_DEVICE_NS
