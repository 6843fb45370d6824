#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "engine/config.h"
#include "engine/tensors.h"
#include "tests/support/gguf_builder.h"
#include "tests/support/tiny_model.h"

namespace engine::test {
namespace {

// Keeps what a Config and a TensorTable are read from.
struct Model {
  explicit Model(const GgufFile& file)
      : bytes(file.build()),
        reader(gguf::Reader::open(bytes)),
        config(Config::from_file(*reader)) {}
  Bytes bytes;
  Result<gguf::Reader> reader;
  Result<Config> config;
};

Config config_of(const GgufFile& file) {
  const Model model(file);
  EXPECT_TRUE(model.config) << model.config.status().message();
  return model.config ? *model.config : Config{};
}

bool mentions(const std::vector<std::string>& lines, std::string_view text) {
  return std::any_of(lines.begin(), lines.end(),
                     [&](const std::string& line) { return line.find(text) != std::string::npos; });
}

TEST(Config, ValuesOfTheFile) {
  const Config config = config_of(tiny_model());
  EXPECT_EQ(config.n_layers, 7);
  EXPECT_EQ(config.d_model, 32);
  EXPECT_EQ(config.d_ff, 64);
  EXPECT_EQ(config.n_heads, 2);
  EXPECT_EQ(config.n_kv_heads, 1);
  EXPECT_EQ(config.head_dim, 16);
  EXPECT_EQ(config.n_vocab, 512);
  EXPECT_EQ(config.n_ctx_train, 128);
  EXPECT_EQ(config.window, 8);
  EXPECT_EQ(config.rms_eps, 1e-6f);
  EXPECT_EQ(config.rope_base_global, 1e6);
  EXPECT_EQ(config.rope_base_local, 1e4);
  EXPECT_EQ(config.rope_factor_global, 1);
  EXPECT_EQ(config.name, "tiny");
  EXPECT_TRUE(config.notes.empty());
}

TEST(Config, EverySixthLayerIsGlobal) {
  const std::vector<bool> expected = {true, true, true, true, true, false, true};
  GgufFile file = tiny_model();
  EXPECT_EQ(config_of(file).is_local, expected);
  file.set("gemma3.attention.sliding_window_pattern", std::uint32_t{6});
  EXPECT_EQ(config_of(file).is_local, expected);
  file.set_array("gemma3.attention.sliding_window_pattern", expected);
  EXPECT_EQ(config_of(file).is_local, expected);
}

TEST(Config, OtherPatterns) {
  GgufFile file = tiny_model();
  file.set("gemma3.attention.sliding_window_pattern", std::uint32_t{3});
  EXPECT_EQ(config_of(file).is_local,
            (std::vector<bool>{true, true, false, true, true, false, true}));
  file.set("gemma3.attention.sliding_window_pattern", std::uint32_t{1});
  EXPECT_EQ(config_of(file).is_local, std::vector<bool>(7, false));
  const std::vector<bool> odd = {false, true, true, false, true, false, false};
  file.set_array("gemma3.attention.sliding_window_pattern", odd);
  EXPECT_EQ(config_of(file).is_local, odd);
}

TEST(Config, AttentionScale) {
  EXPECT_EQ(config_of(tiny_model()).query_width, 16);
  const TinyShape narrow = {.head_dim = 8};
  EXPECT_EQ(config_of(tiny_model(gguf::Type::f32, narrow)).query_width, 8);
}

TEST(Config, AttentionScaleOf27B) {
  const TinyShape layers_of_27b = {.n_layers = 62};
  const Config config = config_of(tiny_model(gguf::Type::f32, layers_of_27b));
  EXPECT_EQ(config.query_width, 168);
}

TEST(Config, RopeKeys) {
  GgufFile file = tiny_model();
  file.set("gemma3.rope.freq_base", 5e5f);
  file.set("gemma3.rope.local.freq_base", 2e4f);
  file.set("gemma3.rope.scaling.type", "linear");
  file.set("gemma3.rope.scaling.factor", 8.0f);
  file.set("gemma3.rope.dimension_count", std::uint32_t{16});
  const Config config = config_of(file);
  EXPECT_EQ(config.rope_base_global, 5e5);
  EXPECT_EQ(config.rope_base_local, 2e4);
  EXPECT_EQ(config.rope_factor_global, 8);

  file.remove("gemma3.rope.local.freq_base");
  file.set("gemma3.rope.freq_base_swa", 3e4f);
  file.set("gemma3.rope.scaling.type", "none");
  EXPECT_EQ(config_of(file).rope_base_local, 3e4);
  EXPECT_EQ(config_of(file).rope_factor_global, 1);
}

TEST(Config, DefaultsAreNoted) {
  GgufFile file = tiny_model(gguf::Type::f32, {.n_heads = 2, .head_dim = 256});
  for (const char* key : {"gemma3.attention.layer_norm_rms_epsilon", "gemma3.rope.freq_base",
                          "gemma3.attention.sliding_window", "gemma3.attention.key_length",
                          "gemma3.attention.value_length"})
    file.remove(key);
  file.set("gemma3.context_length", std::uint32_t{4096});
  const Config config = config_of(file);
  EXPECT_EQ(config.rms_eps, 1e-6f);
  EXPECT_EQ(config.rope_base_global, 1e6);
  EXPECT_EQ(config.window, 512);
  EXPECT_EQ(config.head_dim, 256);
  EXPECT_EQ(config.notes.size(), 5u);
  EXPECT_TRUE(mentions(config.notes, "gemma3.rope.freq_base is missing; using 1e+06"));
  EXPECT_TRUE(mentions(config.notes, "gemma3.attention.sliding_window is missing; using 512"));
}

TEST(Config, ErrorsTellWhatIsExpected) {
  GgufFile file = tiny_model();
  file.set("gemma3.attention.value_length", std::uint32_t{18});
  const Model only_choice(file);
  const std::string message = only_choice.config.status().message();
  EXPECT_NE(message.find("value_length is 18, but must be 16"), std::string::npos) << message;
}

TEST(Config, LargerModelsHaveALargerDefaultWindow) {
  GgufFile file = tiny_model(gguf::Type::f32, {.n_layers = 34, .n_ctx = 4096});
  file.remove("gemma3.attention.sliding_window");
  EXPECT_EQ(config_of(file).window, 1024);
}

TEST(Config, WindowAndContextAreCapped) {
  GgufFile file = tiny_model();
  file.set("gemma3.attention.sliding_window", std::uint32_t{0xFFFFFFFF});
  EXPECT_EQ(config_of(file).window, 128);  // all of the context: full attention
  file.set("gemma3.context_length", std::uint32_t{0xFFFFFFFF});
  EXPECT_EQ(config_of(file).n_ctx_train, 1 << 24);
}

TEST(TensorTable, EveryRole) {
  const Model model(tiny_model());
  const auto table = TensorTable::from_file(*model.reader, *model.config);
  ASSERT_TRUE(table) << table.status().message();
  EXPECT_EQ(table->token_embd->name, "token_embd.weight");
  EXPECT_EQ(table->output_norm->name, "output_norm.weight");
  EXPECT_EQ(table->output, nullptr);
  ASSERT_EQ(table->layers.size(), 7u);
  const LayerTensors& layer = table->layers[5];
  EXPECT_EQ(layer.attn_norm->name, "blk.5.attn_norm.weight");
  EXPECT_EQ(layer.attn_q->name, "blk.5.attn_q.weight");
  EXPECT_EQ(layer.attn_k->name, "blk.5.attn_k.weight");
  EXPECT_EQ(layer.attn_v->name, "blk.5.attn_v.weight");
  EXPECT_EQ(layer.attn_q_norm->name, "blk.5.attn_q_norm.weight");
  EXPECT_EQ(layer.attn_k_norm->name, "blk.5.attn_k_norm.weight");
  EXPECT_EQ(layer.attn_output->name, "blk.5.attn_output.weight");
  EXPECT_EQ(layer.post_attention_norm->name, "blk.5.post_attention_norm.weight");
  EXPECT_EQ(layer.ffn_norm->name, "blk.5.ffn_norm.weight");
  EXPECT_EQ(layer.ffn_gate->name, "blk.5.ffn_gate.weight");
  EXPECT_EQ(layer.ffn_up->name, "blk.5.ffn_up.weight");
  EXPECT_EQ(layer.ffn_down->name, "blk.5.ffn_down.weight");
  EXPECT_EQ(layer.post_ffw_norm->name, "blk.5.post_ffw_norm.weight");
  EXPECT_TRUE(table->warnings.empty());
}

TEST(TensorTable, OwnOutputMatrix) {
  GgufFile file = tiny_model();
  FileTensor output = file.tensor("token_embd.weight");
  output.name = "output.weight";
  file.tensors.push_back(output);
  const Model model(file);
  const auto table = TensorTable::from_file(*model.reader, *model.config);
  ASSERT_TRUE(table) << table.status().message();
  ASSERT_NE(table->output, nullptr);
  EXPECT_EQ(table->output->name, "output.weight");
  EXPECT_TRUE(table->warnings.empty());
}

TEST(TensorTable, OneWarningPerStrayTensor) {
  GgufFile file = tiny_model();
  for (const char* name : {"rope_freqs.weight", "blk.7.attn_q.weight"})
    file.tensors.push_back({.name = name, .dims = {8}, .data = Bytes(32)});
  const Model model(file);
  const auto table = TensorTable::from_file(*model.reader, *model.config);
  ASSERT_TRUE(table) << table.status().message();
  ASSERT_EQ(table->warnings.size(), 2u);
  EXPECT_TRUE(mentions(table->warnings, "rope_freqs.weight"));
  EXPECT_TRUE(mentions(table->warnings, "blk.7.attn_q.weight"));
}

TEST(TensorTable, ManyStraysAreSummedUp) {
  GgufFile file = tiny_model();
  for (int i = 0; i < 100; ++i)
    file.tensors.push_back({.name = "v." + std::to_string(i), .dims = {8}, .data = Bytes(32)});
  const Model model(file);
  const auto table = TensorTable::from_file(*model.reader, *model.config);
  ASSERT_TRUE(table) << table.status().message();
  EXPECT_EQ(table->warnings.size(), 17u);
  EXPECT_TRUE(mentions(table->warnings, "84 more"));
}

TEST(TensorTable, EveryTypeTheEngineRuns) {
  using gguf::Type;
  for (const Type type : {Type::f32, Type::f16, Type::bf16, Type::q4_0, Type::q4_1, Type::q5_0,
                          Type::q5_1, Type::q8_0, Type::q2_k, Type::q3_k, Type::q4_k, Type::q5_k,
                          Type::q6_k, Type::iq4_nl, Type::iq4_xs}) {
    const Model model(tiny_model(type, kTinyShape256));
    const auto table = TensorTable::from_file(*model.reader, *model.config);
    EXPECT_TRUE(table) << name(type) << ": " << table.status().message();
  }
}

}  // namespace
}  // namespace engine::test
