// Random weight matrices of every type the engine runs, in any layout.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <type_traits>

#include "kernels/cpu/planes.h"
#include "kernels/cuda/planes.h"
#include "kernels/op/convert.h"
#include "kernels/op/matrix.h"
#include "tests/support/buffer.h"
#include "tests/support/random.h"

namespace engine::cpu {
class Pool;
}
namespace engine::test {

inline constexpr std::array kQuantizedTypes = {
    gguf::Type::q4_0, gguf::Type::q4_1, gguf::Type::q5_0,   gguf::Type::q5_1,
    gguf::Type::q8_0, gguf::Type::q2_k, gguf::Type::q3_k,   gguf::Type::q4_k,
    gguf::Type::q5_k, gguf::Type::q6_k, gguf::Type::iq4_nl, gguf::Type::iq4_xs};
// Those of the CPU backend.
inline constexpr std::array kLayouts = {op::Layout::rows, op::Layout::planes,
                                        op::Layout::split_planes};
inline constexpr std::array kFloatTypes = {gguf::Type::f32, gguf::Type::f16, gguf::Type::bf16};

inline std::string name(op::Layout layout) {
  return layout == op::Layout::rows           ? "rows"
         : layout == op::Layout::planes       ? "planes"
         : layout == op::Layout::split_planes ? "split planes"
                                              : "device planes";
}

// A matrix that owns its bytes.
class Weights {
 public:
  Weights(gguf::Type type, op::Layout layout, int n_out, int n_in, std::size_t n_bytes)
      : bytes_(n_bytes), matrix_{type, layout, n_out, n_in, nullptr} {}

  op::Matrix matrix() const {
    op::Matrix m = matrix_;
    m.data = bytes_.data();
    return m;
  }
  std::byte* data() { return bytes_.data(); }
  std::size_t n_bytes() const { return bytes_.size(); }

  template <class Block>
  Block* blocks() {
    return reinterpret_cast<Block*>(bytes_.data());
  }
  template <class Block>
  std::size_t n_blocks() const {
    return bytes_.size() / sizeof(Block);
  }

 private:
  Buffer<std::byte> bytes_;
  op::Matrix matrix_;
};

// Uninitialised rows.
inline Weights make_weights(gguf::Type type, int n_out, int n_in) {
  const gguf::TypeTraits& traits = gguf::traits(type);
  const std::size_t row_bytes =
      static_cast<std::size_t>(n_in) / traits.block_elements * traits.block_bytes;
  return Weights(type, op::Layout::rows, n_out, n_in, static_cast<std::size_t>(n_out) * row_bytes);
}

inline std::uint16_t random_half(Random& random, float low, float high) {
  return op::f16_from_f32(random.uniform(low, high));
}

// All bits of quants and sub-scales random; the fp16 scales such that weights are around 0.01 to 1.
inline void fill_random(Weights& weights, Random& random) {
  const gguf::Type type = weights.matrix().type;
  std::byte* bytes = weights.data();
  const bool is_quantized = gguf::visit_block(type, [&]<class Block>() {
    for (std::size_t i = 0; i < weights.n_bytes(); ++i)
      bytes[i] = static_cast<std::byte>(random.bits() >> 56);
    for (std::size_t b = 0; b < weights.n_blocks<Block>(); ++b) {
      Block& block = weights.blocks<Block>()[b];
      block.d = random_half(random, -0.01f, 0.01f);
      if constexpr (Block::kMinimum == gguf::Minimum::subtract)
        block.dmin = random_half(random, -0.01f, 0.01f);
      if constexpr (Block::kMinimum == gguf::Minimum::add)
        block.m = random_half(random, -0.1f, 0.1f);
    }
  });
  if (is_quantized) return;
  const std::size_t element = gguf::traits(type).block_bytes;
  for (std::size_t i = 0; i < weights.n_bytes(); i += element) {
    const float value = random.normal();
    const std::uint16_t f16 = op::f16_from_f32(value);
    const std::uint16_t bf16 =
        static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16);
    if (type == gguf::Type::f32) std::memcpy(bytes + i, &value, element);
    if (type == gguf::Type::f16) std::memcpy(bytes + i, &f16, element);
    if (type == gguf::Type::bf16) std::memcpy(bytes + i, &bf16, element);
  }
}

// What a backend, told by its context, reads of a matrix: rows, or planes if they are its own.
template <class Context>
const Weights& readable(const Weights& rows, const std::optional<Weights>& planes, const Context&) {
  if (!planes) return rows;
  const bool of_device = planes->matrix().layout == op::Layout::device_planes;
  return of_device == std::is_same_v<Context, cpu::Pool> ? rows : *planes;
}

// The same matrix in another layout, which the type must have.
inline Weights pack_planes(const Weights& rows, op::Layout layout) {
  op::Matrix m = rows.matrix();
  const std::byte* from = m.data;
  const std::size_t row_bytes = rows.n_bytes() / static_cast<std::size_t>(std::max(1, m.n_out));
  m.layout = layout;
  const bool on_device = layout == op::Layout::device_planes;
  const auto pack = on_device ? cuda::pack_group : cpu::pack_group;
  const int group = on_device ? cuda::kGroup : cpu::kGroup;
  Weights planes(m.type, layout, m.n_out, m.n_in,
                 on_device ? cuda::planes_bytes(m) : cpu::planes_bytes(m));
  for (int o = 0; o < m.n_out; o += group)
    pack(m, o / group, from + static_cast<std::size_t>(o) * row_bytes, std::min(group, m.n_out - o),
         planes.data());
  return planes;
}

}  // namespace engine::test
