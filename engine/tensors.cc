#include "engine/tensors.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "gguf/file_error.h"

namespace engine {
namespace {

using gguf::file_error;
using gguf::Tensor;
using gguf::Type;

// A dimension of a tensor, named by what decides it.
enum class Extent { one, model, ff, head, queries, keys, vocab };

std::uint64_t size_of(Extent extent, const Config& c) {
  switch (extent) {
    case Extent::one:
      return 1;
    case Extent::model:
      return static_cast<std::uint64_t>(c.d_model);
    case Extent::ff:
      return static_cast<std::uint64_t>(c.d_ff);
    case Extent::head:
      return static_cast<std::uint64_t>(c.head_dim);
    case Extent::queries:
      return static_cast<std::uint64_t>(c.n_heads) * size_of(Extent::head, c);
    case Extent::keys:
      return static_cast<std::uint64_t>(c.n_kv_heads) * size_of(Extent::head, c);
    case Extent::vocab:
      return static_cast<std::uint64_t>(c.n_vocab);
  }
  return 0;
}

struct Shape {
  Extent row, rows;
  bool is_norm() const { return rows == Extent::one; }
};

constexpr Shape kModelNorm = {Extent::model, Extent::one};
constexpr Shape kHeadNorm = {Extent::head, Extent::one};
constexpr Shape kHeadMatrix = {Extent::model, Extent::vocab};

struct Role {
  std::string_view name;
  const Tensor* LayerTensors::*member;
  Shape shape;
};

constexpr Role kRoles[] = {
    {"attn_norm", &LayerTensors::attn_norm, kModelNorm},
    {"attn_q", &LayerTensors::attn_q, {Extent::model, Extent::queries}},
    {"attn_k", &LayerTensors::attn_k, {Extent::model, Extent::keys}},
    {"attn_v", &LayerTensors::attn_v, {Extent::model, Extent::keys}},
    {"attn_q_norm", &LayerTensors::attn_q_norm, kHeadNorm},
    {"attn_k_norm", &LayerTensors::attn_k_norm, kHeadNorm},
    {"attn_output", &LayerTensors::attn_output, {Extent::queries, Extent::model}},
    {"post_attention_norm", &LayerTensors::post_attention_norm, kModelNorm},
    {"ffn_norm", &LayerTensors::ffn_norm, kModelNorm},
    {"ffn_gate", &LayerTensors::ffn_gate, {Extent::model, Extent::ff}},
    {"ffn_up", &LayerTensors::ffn_up, {Extent::model, Extent::ff}},
    {"ffn_down", &LayerTensors::ffn_down, {Extent::ff, Extent::model}},
    {"post_ffw_norm", &LayerTensors::post_ffw_norm, kModelNorm},
};

std::string quoted(std::string_view tensor_name) {
  return "tensor \"" + gguf::printable(tensor_name) + "\"";
}

std::string block_tensor(int block, std::string_view role) {
  return "blk." + std::to_string(block) + "." + std::string(role) + ".weight";
}

// The block number of "blk.<number>.…" in its one canonical spelling: no sign, no leading zero. It
// is compared, never used as an index.
std::optional<int> block_of(std::string_view tensor_name) {
  constexpr std::string_view kPrefix = "blk.";
  if (!tensor_name.starts_with(kPrefix)) return std::nullopt;
  const std::string_view rest = tensor_name.substr(kPrefix.size());
  const std::string_view digits = rest.substr(0, rest.find('.'));
  int block = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), block);
  const bool whole = error == std::errc() && end == digits.data() + digits.size();
  if (!whole || digits != std::to_string(block) || block < 0) return std::nullopt;
  return block;
}

bool is_complete_block(const gguf::Reader& file, int block) {
  return std::all_of(std::begin(kRoles), std::end(kRoles), [&](const Role& role) {
    return file.find_tensor(block_tensor(block, role.name)) != nullptr;
  });
}

// block_count must be the number of blocks in the file. A block that lacks some tensors is reported
// as that, by name, later.
Status check_block_count(const gguf::Reader& file, const Config& config) {
  std::vector<bool> present(static_cast<std::size_t>(config.n_layers));
  for (const Tensor& tensor : file.tensors()) {
    const auto block = block_of(tensor.name);
    if (!block) continue;
    if (*block < config.n_layers)
      present[static_cast<std::size_t>(*block)] = true;
    else if (tensor.name.ends_with(".attn_norm.weight") && is_complete_block(file, *block))
      return file_error(Detail::hparam, "gemma3.block_count is " + std::to_string(config.n_layers) +
                                            ", but the file has a block " + std::to_string(*block));
  }
  const auto absent = std::find(present.begin(), present.end(), false);
  const bool any = std::find(present.begin(), present.end(), true) != present.end();
  if (any && absent != present.end())
    return file_error(Detail::hparam, "gemma3.block_count is " + std::to_string(config.n_layers) +
                                          ", but the file has no block " +
                                          std::to_string(absent - present.begin()));
  return {};
}

// A hyperparameter that all blocks contradict in the same way is itself at fault.
struct Witness {
  std::string_view keys;
  std::string_view role;
  std::size_t dim;
  Extent extent;
};

constexpr Witness kWitnesses[] = {
    {"gemma3.embedding_length", "attn_norm", 0, Extent::model},
    {"gemma3.attention.key_length", "attn_q_norm", 0, Extent::head},
    {"gemma3.attention.head_count times key_length", "attn_q", 1, Extent::queries},
    {"gemma3.attention.head_count_kv times key_length", "attn_k", 1, Extent::keys},
    {"gemma3.feed_forward_length", "ffn_up", 1, Extent::ff},
};

Status check_witness(const gguf::Reader& file, const Config& config, const Witness& witness) {
  const std::uint64_t expected = size_of(witness.extent, config);
  std::optional<std::uint64_t> found;
  for (int block = 0; block < config.n_layers; ++block) {
    const Tensor* tensor = file.find_tensor(block_tensor(block, witness.role));
    if (tensor == nullptr) continue;
    const std::uint64_t size = tensor->dims[witness.dim];
    if (size == expected || size != found.value_or(size)) return {};
    found = size;
  }
  if (!found) return {};
  return file_error(Detail::hparam, std::string(witness.keys) + " is " + std::to_string(expected) +
                                        ", but every " + std::string(witness.role) +
                                        " tensor says " + std::to_string(*found));
}

bool is_integer(Type type) {
  return type == Type::i8 || type == Type::i16 || type == Type::i32 || type == Type::i64;
}

bool is_runnable(Type type) {
  return type == Type::f32 || type == Type::f16 || type == Type::bf16 ||
         gguf::visit_block(type, []<class Block>() {});
}

Status check_type(const Tensor& tensor, const Shape& shape) {
  const std::string subject = quoted(tensor.name) + " has type " + std::string(name(tensor.type));
  if (shape.is_norm())
    return tensor.type == Type::f32
               ? Status{}
               : file_error(Detail::type, subject + ", but a norm's weights must be F32");
  if (is_integer(tensor.type))
    return file_error(Detail::type, subject + ", but a matrix of weights cannot be integer");
  if (!is_runnable(tensor.type))
    return file_error(Detail::unsupported, subject + ", which is not supported");
  return {};
}

std::string text_of(const std::array<std::uint64_t, 4>& dims) {
  std::size_t n_dims = dims.size();
  while (n_dims > 1 && dims[n_dims - 1] == 1) --n_dims;
  std::string text = "[";
  text += std::to_string(dims[0]);
  for (std::size_t i = 1; i < n_dims; ++i) text.append(", ").append(std::to_string(dims[i]));
  return text + "]";
}

Status check_shape(const Tensor& tensor, const Shape& shape, const Config& config) {
  const std::array<std::uint64_t, 4> expected = {size_of(shape.row, config),
                                                 size_of(shape.rows, config), 1, 1};
  if (tensor.dims == expected) return {};
  return file_error(Detail::shape, quoted(tensor.name) + " has shape " + text_of(tensor.dims) +
                                       ", expected " + text_of(expected));
}

Status check_tensor(const Tensor& tensor, const Shape& shape, const Config& config) {
  ENGINE_TRY(check_type(tensor, shape));
  return check_shape(tensor, shape, config);
}

Result<const Tensor*> require_tensor(const gguf::Reader& file, const Config& config,
                                     std::string_view name, const Shape& shape) {
  const Tensor* tensor = file.find_tensor(name);
  if (tensor == nullptr) return file_error(Detail::missing, quoted(name) + " is missing");
  ENGINE_TRY(check_tensor(*tensor, shape, config));
  return tensor;
}

Result<LayerTensors> require_block(const gguf::Reader& file, const Config& config, int block) {
  LayerTensors layer{};
  for (const Role& role : kRoles) {
    ENGINE_ASSIGN(layer.*role.member,
                  require_tensor(file, config, block_tensor(block, role.name), role.shape));
  }
  return layer;
}

// One line for each tensor without a role, up to a number that a user would still read.
void warn_of_strays(const gguf::Reader& file, TensorTable& table) {
  constexpr std::size_t kMaxWarnings = 16;
  const std::vector<const Tensor*> all = table.all();
  const std::unordered_set<const Tensor*> used(all.begin(), all.end());
  std::size_t n_strays = 0;
  for (const Tensor& tensor : file.tensors()) {
    if (used.contains(&tensor)) continue;
    if (++n_strays <= kMaxWarnings)
      table.warnings.push_back(quoted(tensor.name) + " is not part of the model and is ignored");
  }
  if (n_strays > kMaxWarnings)
    table.warnings.push_back(std::to_string(n_strays - kMaxWarnings) +
                             " more tensors are not part of the model and are ignored");
}

}  // namespace

std::vector<const Tensor*> TensorTable::all() const {
  std::vector<const Tensor*> tensors = {token_embd, output_norm};
  if (output != nullptr) tensors.push_back(output);
  for (const LayerTensors& layer : layers)
    for (const Role& role : kRoles) tensors.push_back(layer.*role.member);
  return tensors;
}

Result<TensorTable> TensorTable::from_file(const gguf::Reader& file, const Config& config) {
  ENGINE_TRY(check_block_count(file, config));
  for (const Witness& witness : kWitnesses) ENGINE_TRY(check_witness(file, config, witness));

  TensorTable table{};
  ENGINE_ASSIGN(table.token_embd, require_tensor(file, config, "token_embd.weight", kHeadMatrix));
  ENGINE_ASSIGN(table.output_norm, require_tensor(file, config, "output_norm.weight", kModelNorm));
  table.output = file.find_tensor("output.weight");
  if (table.output != nullptr) ENGINE_TRY(check_tensor(*table.output, kHeadMatrix, config));
  for (int block = 0; block < config.n_layers; ++block) {
    ENGINE_ASSIGN(LayerTensors layer, require_block(file, config, block));
    table.layers.push_back(layer);
  }
  warn_of_strays(file, table);
  return table;
}

}  // namespace engine
