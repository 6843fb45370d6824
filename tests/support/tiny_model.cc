#include "tests/support/tiny_model.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>

#include "kernels/op/convert.h"
#include "tests/support/random.h"

namespace engine::test {
namespace {

using gguf::Type;

constexpr int kFirstByteToken = 8;

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

Bytes random_weights(Type type, std::uint64_t n_elements, Random& random) {
  Bytes bytes;
  const bool quantized = gguf::visit_block(type, [&]<class Block>() {
    for (std::uint64_t i = 0; i < n_elements; i += Block::kElements)
      append_block<Block>(bytes, random);
  });
  if (quantized) return bytes;
  for (std::uint64_t i = 0; i < n_elements; ++i)
    append_float(bytes, type, random.uniform(-0.5f, 0.5f));
  return bytes;
}

std::vector<std::int32_t> token_types(std::size_t n_tokens) {
  std::vector<std::int32_t> types(n_tokens, 1);
  for (std::size_t t = 0; t < 6; ++t) types[t] = 3;
  types[6] = types[7] = 4;
  for (std::size_t t = kFirstByteToken; t < kFirstByteToken + 256; ++t) types[t] = 6;
  return types;
}

void add_vocabulary(GgufFile& file) {
  const std::vector<std::string> tokens = tiny_tokens();
  std::vector<float> scores;
  for (std::size_t t = 0; t < tokens.size(); ++t) scores.push_back(-static_cast<float>(t));
  file.set("tokenizer.ggml.model", "llama");
  file.set("tokenizer.ggml.pre", "default");
  file.set_strings("tokenizer.ggml.tokens", tokens);
  file.set_array("tokenizer.ggml.scores", scores);
  file.set_array("tokenizer.ggml.token_type", token_types(tokens.size()));
  file.set("tokenizer.ggml.bos_token_id", std::uint32_t{2});
  file.set("tokenizer.ggml.eos_token_id", std::uint32_t{1});
  file.set("tokenizer.ggml.unknown_token_id", std::uint32_t{3});
  file.set("tokenizer.ggml.padding_token_id", std::uint32_t{0});
  file.set("tokenizer.ggml.add_bos_token", true);
  file.set("tokenizer.ggml.add_eos_token", false);
  file.set("tokenizer.ggml.add_space_prefix", false);
}

void add_hyperparameters(GgufFile& file, const TinyShape& shape) {
  const auto set = [&](const char* key, int value) {
    file.set("gemma3." + std::string(key), static_cast<std::uint32_t>(value));
  };
  file.set("general.architecture", "gemma3");
  file.set("general.name", "tiny");
  set("context_length", shape.n_ctx);
  set("embedding_length", shape.d_model);
  set("block_count", shape.n_layers);
  set("feed_forward_length", shape.d_ff);
  set("attention.head_count", shape.n_heads);
  set("attention.head_count_kv", shape.n_kv_heads);
  set("attention.key_length", shape.head_dim);
  set("attention.value_length", shape.head_dim);
  file.set("gemma3.attention.layer_norm_rms_epsilon", 1e-6f);
  file.set("gemma3.rope.freq_base", 1e6f);
  set("attention.sliding_window", shape.window);
}

class TensorWriter {
 public:
  TensorWriter(GgufFile& file, Type type) : file_(file), type_(type) {}

  void norm(const std::string& name, int size) { add(name, {size}, Type::f32); }
  void matrix(const std::string& name, int row, int rows) { add(name, {row, rows}, type_); }

 private:
  void add(const std::string& name, const std::vector<int>& dims, Type type) {
    FileTensor tensor{.name = name + ".weight", .type = static_cast<std::uint32_t>(type)};
    std::uint64_t n_elements = 1;
    for (const int dim : dims) {
      tensor.dims.push_back(static_cast<std::uint64_t>(dim));
      n_elements *= tensor.dims.back();
    }
    tensor.data = random_weights(type, n_elements, random_);
    file_.tensors.push_back(std::move(tensor));
  }

  GgufFile& file_;
  Type type_;
  Random random_{1};
};

void add_layer(TensorWriter& writer, const TinyShape& shape, int layer) {
  const std::string block = "blk." + std::to_string(layer) + ".";
  const int n_queries = shape.n_heads * shape.head_dim, n_keys = shape.n_kv_heads * shape.head_dim;
  writer.norm(block + "attn_norm", shape.d_model);
  writer.matrix(block + "attn_q", shape.d_model, n_queries);
  writer.matrix(block + "attn_k", shape.d_model, n_keys);
  writer.matrix(block + "attn_v", shape.d_model, n_keys);
  writer.norm(block + "attn_q_norm", shape.head_dim);
  writer.norm(block + "attn_k_norm", shape.head_dim);
  writer.matrix(block + "attn_output", n_queries, shape.d_model);
  writer.norm(block + "post_attention_norm", shape.d_model);
  writer.norm(block + "ffn_norm", shape.d_model);
  writer.matrix(block + "ffn_gate", shape.d_model, shape.d_ff);
  writer.matrix(block + "ffn_up", shape.d_model, shape.d_ff);
  writer.matrix(block + "ffn_down", shape.d_ff, shape.d_model);
  writer.norm(block + "post_ffw_norm", shape.d_model);
}

}  // namespace

std::vector<std::string> tiny_tokens() {
  std::vector<std::string> tokens = {"<pad>",           "<eos>",         "<bos>", "<unk>",
                                     "<start_of_turn>", "<end_of_turn>", "\n",    "\n\n"};
  for (unsigned byte = 0; byte < 256; ++byte) {
    char text[8];
    std::snprintf(text, sizeof text, "<0x%02X>", byte);
    tokens.emplace_back(text);
  }
  const std::string space = "\xE2\x96\x81";
  for (char c = 'a'; c <= 'z'; ++c) tokens.push_back(space + c);
  tokens.push_back(space);
  for (char c = '!'; c <= '~'; ++c) tokens.emplace_back(1, c);
  for (char c = 'a'; tokens.size() < kTinyVocab; ++c)
    for (const char vowel : {'a', 'e', 'i', 'o', 'u'})
      if (tokens.size() < kTinyVocab) tokens.push_back({c, vowel});
  return tokens;
}

GgufFile tiny_model(Type type, const TinyShape& shape) {
  GgufFile file;
  add_hyperparameters(file, shape);
  add_vocabulary(file);
  TensorWriter writer(file, type);
  writer.matrix("token_embd", shape.d_model, kTinyVocab);
  writer.norm("output_norm", shape.d_model);
  for (int layer = 0; layer < shape.n_layers; ++layer) add_layer(writer, shape, layer);
  return file;
}

}  // namespace engine::test
