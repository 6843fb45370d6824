#include "tests/support/tiny_model.h"

#include <cstdio>
#include <utility>

#include "tests/support/random.h"
#include "tests/support/random_weights.h"

namespace engine::test {
namespace {

using gguf::Type;

constexpr int kFirstByteToken = 8;

std::vector<std::int32_t> token_types(std::size_t n_tokens) {
  std::vector<std::int32_t> types(n_tokens, 1);
  for (std::size_t t = 0; t < 6; ++t) types[t] = 3;
  types[6] = types[7] = 4;
  for (std::size_t t = kFirstByteToken; t < kFirstByteToken + 256; ++t) types[t] = 6;
  return types;
}

void add_vocabulary(GgufFile& file, const std::vector<std::string>& tokens) {
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

class TensorList {
 public:
  void norm(const std::string& name, int size) { add(name, {size}); }
  void matrix(const std::string& name, int row, int rows) { add(name, {row, rows}); }
  std::vector<ModelTensor> take() { return std::move(tensors_); }

 private:
  void add(const std::string& name, const std::vector<int>& dims) {
    ModelTensor& tensor = tensors_.emplace_back(ModelTensor{.name = name + ".weight"});
    for (const int dim : dims) tensor.dims.push_back(static_cast<std::uint64_t>(dim));
  }

  std::vector<ModelTensor> tensors_;
};

void add_layer(TensorList& list, const TinyShape& shape, int layer) {
  const std::string block = "blk." + std::to_string(layer) + ".";
  const int n_queries = shape.n_heads * shape.head_dim, n_keys = shape.n_kv_heads * shape.head_dim;
  list.norm(block + "attn_norm", shape.d_model);
  list.matrix(block + "attn_q", shape.d_model, n_queries);
  list.matrix(block + "attn_k", shape.d_model, n_keys);
  list.matrix(block + "attn_v", shape.d_model, n_keys);
  list.norm(block + "attn_q_norm", shape.head_dim);
  list.norm(block + "attn_k_norm", shape.head_dim);
  list.matrix(block + "attn_output", n_queries, shape.d_model);
  list.norm(block + "post_attention_norm", shape.d_model);
  list.norm(block + "ffn_norm", shape.d_model);
  list.matrix(block + "ffn_gate", shape.d_model, shape.d_ff);
  list.matrix(block + "ffn_up", shape.d_model, shape.d_ff);
  list.matrix(block + "ffn_down", shape.d_ff, shape.d_model);
  list.norm(block + "post_ffw_norm", shape.d_model);
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

GgufFile model_metadata(const TinyShape& shape, const std::vector<std::string>& tokens) {
  GgufFile file;
  add_hyperparameters(file, shape);
  add_vocabulary(file, tokens);
  return file;
}

std::vector<ModelTensor> model_tensors(const TinyShape& shape, int n_vocab) {
  TensorList list;
  list.matrix("token_embd", shape.d_model, n_vocab);
  list.norm("output_norm", shape.d_model);
  for (int layer = 0; layer < shape.n_layers; ++layer) add_layer(list, shape, layer);
  return list.take();
}

GgufFile tiny_model(Type type, const TinyShape& shape) {
  GgufFile file = model_metadata(shape, tiny_tokens());
  Random random(1);
  for (ModelTensor& tensor : model_tensors(shape, kTinyVocab)) {
    const Type stored = tensor.is_norm() ? Type::f32 : type;
    Bytes data = random_weights(stored, tensor.n_elements(), random);
    file.tensors.push_back({.name = std::move(tensor.name),
                            .dims = std::move(tensor.dims),
                            .type = static_cast<std::uint32_t>(stored),
                            .data = std::move(data)});
  }
  return file;
}

}  // namespace engine::test
