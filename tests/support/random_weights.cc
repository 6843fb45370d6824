#include "tests/support/random_weights.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "kernels/op/convert.h"

namespace engine::test {
namespace {

using gguf::Type;

void append_float(Bytes& bytes, Type type, float value) {
  if (type == Type::f32) append(bytes, value);
  if (type == Type::f16) append(bytes, op::f16_from_f32(value));
  if (type == Type::bf16)
    append(bytes, static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16));
}

// Random quants and sub-scales, and fp16 scales that make weights of about 0.01 to 0.5.
template <class Block>
void append_block(Bytes& bytes, Random& random) {
  constexpr bool kHasSubScales = Block::kSubBlock < Block::kElements;
  const std::uint16_t scale = op::f16_from_f32(kHasSubScales ? 0x1p-12f : 0x1p-8f);
  Block block;
  for (std::size_t i = 0; i < sizeof block; i += sizeof(std::uint64_t)) {
    const std::uint64_t bits = random.bits();
    std::memcpy(reinterpret_cast<std::byte*>(&block) + i, &bits,
                std::min(sizeof bits, sizeof block - i));
  }
  block.d = scale;
  if constexpr (Block::kMinimum == gguf::Minimum::subtract) block.dmin = scale;
  if constexpr (Block::kMinimum == gguf::Minimum::add) block.m = scale;
  append(bytes, &block, sizeof block);
}

}  // namespace

Bytes random_weights(Type type, std::uint64_t n_elements, Random& random) {
  Bytes bytes;
  const gguf::TypeTraits& traits = gguf::traits(type);
  if (traits.block_bytes > 0)
    bytes.reserve(n_elements / traits.block_elements * traits.block_bytes);
  const bool quantized = gguf::visit_block(type, [&]<class Block>() {
    for (std::uint64_t i = 0; i < n_elements; i += Block::kElements)
      append_block<Block>(bytes, random);
  });
  if (quantized) return bytes;
  for (std::uint64_t i = 0; i < n_elements; ++i)
    append_float(bytes, type, random.uniform(-0.5f, 0.5f));
  return bytes;
}

}  // namespace engine::test
