#include "tests/support/synthetic_model.h"

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/random_weights.h"

namespace engine::test {
namespace {

using gguf::Type;

// Those of tiny_tokens(), then words of four letters, which these do not contain.
std::vector<std::string> tokens(int n) {
  std::vector<std::string> tokens = tiny_tokens();
  for (int word = 0; static_cast<int>(tokens.size()) < n; ++word) {
    std::string& text = tokens.emplace_back();
    for (const int place : {26 * 26 * 26, 26 * 26, 26, 1})
      text += static_cast<char>('a' + word / place % 26);
  }
  return tokens;
}

// Layers to whose attn_v and ffn_down a Q4_K_M file gives more bits: the first and the last eighth, and every
// third of those between (llama.cpp, use_more_bits()).
bool has_more_bits(int layer, int n_layers) {
  const int eighth = n_layers / 8;
  return layer < eighth || layer >= 7 * n_layers / 8 || (layer - eighth) % 3 == 2;
}

// Of a tensor "blk.<layer>.<kind>.weight"; norms and the embedding have been dealt with.
Type matrix_type(const std::string& name, int n_layers) {
  const std::size_t dot = name.find('.', 4);
  const std::string_view kind = std::string_view(name).substr(dot + 1);
  const bool more = has_more_bits(std::atoi(name.c_str() + 4), n_layers);
  if (kind == "attn_v.weight") return more ? Type::q8_0 : Type::q5_0;
  if (kind == "ffn_down.weight") return more ? Type::q6_k : Type::q4_k;
  return kind == "attn_output.weight" ? Type::q4_k : Type::q5_0;
}

Type type_of(const ModelTensor& tensor, int n_layers) {
  if (tensor.is_norm()) return Type::f32;
  return tensor.name == "token_embd.weight" ? Type::q8_0 : matrix_type(tensor.name, n_layers);
}

// Those behind attention and feed-forward are larger, so that what the layers add outweighs the embedding:
// otherwise the most likely token would always be the last one again.
Bytes norm_weights(const ModelTensor& tensor, Random& random) {
  const float size = tensor.name.find(".post_") != std::string::npos ? 16 : 1;
  Bytes bytes;
  for (std::uint64_t i = 0; i < tensor.n_elements(); ++i)
    append(bytes, size * random.uniform(0.8f, 1.25f));
  return bytes;
}

void write_padded(const Bytes& bytes, std::uint64_t alignment, std::ostream& out) {
  out.write(reinterpret_cast<const char*>(bytes.data()),
            static_cast<std::streamsize>(bytes.size()));
  for (std::uint64_t n = bytes.size(); n % alignment != 0; ++n) out.put('\0');
}

}  // namespace

void write_synthetic_model(const SyntheticShape& shape, std::ostream& out) {
  const std::vector<ModelTensor> tensors = model_tensors(shape.model, shape.n_vocab);
  GgufFile file = model_metadata(shape.model, tokens(shape.n_vocab));
  std::uint64_t offset = 0;
  for (const ModelTensor& tensor : tensors) {
    const Type type = type_of(tensor, shape.model.n_layers);
    file.tensors.push_back({.name = tensor.name,
                            .dims = tensor.dims,
                            .type = static_cast<std::uint32_t>(type),
                            .offset = offset});
    const gguf::TypeTraits& traits = gguf::traits(type);
    const std::uint64_t bytes = tensor.n_elements() / traits.block_elements * traits.block_bytes;
    offset += (bytes + file.alignment - 1) / file.alignment * file.alignment;
  }
  write_padded(file.metadata(), file.alignment, out);
  Random random(1);
  for (const ModelTensor& tensor : tensors)
    write_padded(tensor.is_norm() ? norm_weights(tensor, random)
                                  : random_weights(type_of(tensor, shape.model.n_layers),
                                                   tensor.n_elements(), random),
                 file.alignment, out);
}

}  // namespace engine::test
