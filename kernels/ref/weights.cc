#include "kernels/ref/weights.h"

#include <cassert>

namespace engine::ref {
namespace {

double widen(std::uint16_t f16) { return static_cast<double>(gguf::f32_from_f16(f16)); }

template <class Block>
double exact_weight(const Block& block, int i) {
  const int j = i / Block::kSubBlock;
  const double scaled = widen(block.d) * block.sub_scale(j) * block.quant(i);
  if constexpr (Block::kMinimum == gguf::Minimum::subtract)
    return scaled - widen(block.dmin) * block.sub_min(j);
  else if constexpr (Block::kMinimum == gguf::Minimum::add)
    return scaled + widen(block.m);
  else
    return scaled;
}

// Element i of row o of a matrix whose type is stored element by element.
float float_weight(const op::Matrix& w, int o, int i) {
  const std::ptrdiff_t index = std::ptrdiff_t{o} * w.n_in + i;
  if (w.type == gguf::Type::f32) return reinterpret_cast<const float*>(w.data)[index];
  const std::uint16_t bits = reinterpret_cast<const std::uint16_t*>(w.data)[index];
  return w.type == gguf::Type::f16 ? gguf::f32_from_f16(bits) : gguf::f32_from_bf16(bits);
}

// Row o, element by element: decode(block, i) for quantised types.
template <class T, class Decode>
std::vector<T> row(const op::Matrix& w, int o, Decode decode) {
  assert(w.layout == op::Layout::rows);
  std::vector<T> values;
  values.reserve(static_cast<std::size_t>(w.n_in));
  const bool is_quantized = gguf::visit_block(w.type, [&]<class Block>() {
    const int n_blocks = w.n_in / Block::kElements;
    const auto* blocks = reinterpret_cast<const Block*>(w.data) + std::ptrdiff_t{o} * n_blocks;
    for (int b = 0; b < n_blocks; ++b)
      for (int i = 0; i < Block::kElements; ++i) values.push_back(decode(blocks[b], i));
  });
  if (!is_quantized)
    for (int i = 0; i < w.n_in; ++i) values.push_back(float_weight(w, o, i));
  return values;
}

}  // namespace

std::vector<double> exact_row(const op::Matrix& w, int o) {
  return row<double>(w, o, [](const auto& block, int i) { return exact_weight(block, i); });
}

std::vector<float> decoded_row(const op::Matrix& w, int o) {
  return row<float>(w, o, [](const auto& block, int i) { return gguf::decode(block, i); });
}

}  // namespace engine::ref
