#include "engine/tensor_rows.h"

#include <cmath>
#include <cstdint>
#include <string>

namespace engine {
namespace {

// True if every value that decoding multiplies with is finite: floats, or the fp16 scales of a
// block.
bool all_finite(gguf::Type type, std::span<const std::byte> bytes) {
  bool finite = true;
  if (type == gguf::Type::f32) {
    const auto* p = reinterpret_cast<const float*>(bytes.data());
    for (std::size_t i = 0; i < bytes.size() / sizeof *p; ++i) finite &= std::isfinite(p[i]);
  } else if (type == gguf::Type::f16 || type == gguf::Type::bf16) {
    const auto* p = reinterpret_cast<const std::uint16_t*>(bytes.data());
    const auto widen = type == gguf::Type::f16 ? gguf::f32_from_f16 : gguf::f32_from_bf16;
    for (std::size_t i = 0; i < bytes.size() / sizeof *p; ++i) finite &= std::isfinite(widen(p[i]));
  } else {
    gguf::visit_block(type, [&]<class Block>() {
      const auto* p = reinterpret_cast<const Block*>(bytes.data());
      for (std::size_t i = 0; i < bytes.size() / sizeof(Block); ++i) {
        finite &= std::isfinite(gguf::f32_from_f16(p[i].d));
        if constexpr (Block::kMinimum == gguf::Minimum::subtract)
          finite &= std::isfinite(gguf::f32_from_f16(p[i].dmin));
        if constexpr (Block::kMinimum == gguf::Minimum::add)
          finite &= std::isfinite(gguf::f32_from_f16(p[i].m));
      }
    });
  }
  return finite;
}

}  // namespace

std::size_t row_bytes(const gguf::Tensor& tensor) {
  const gguf::TypeTraits& traits = gguf::traits(tensor.type);
  return tensor.row_elements() / traits.block_elements * traits.block_bytes;
}

Status read_rows(const gguf::Reader& file, const gguf::Tensor& tensor, int begin, int end,
                 bool check_values, std::span<std::byte> to) {
  ENGINE_TRY(file.read(tensor, static_cast<std::size_t>(begin) * row_bytes(tensor), to));
  if (check_values && !all_finite(tensor.type, to))
    return Status(Code::corrupt_file, Detail::value,
                  "tensor " + std::string(tensor.name) + ": NaN or infinity in rows " +
                      std::to_string(begin) + " to " + std::to_string(end - 1));
  return {};
}

}  // namespace engine
