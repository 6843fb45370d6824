// Hyperparameters and the tensors they must agree with.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "tests/hostile/hostile_case.h"
#include "tests/hostile/wrong_types.h"

namespace engine::test {
namespace {

using gguf::Type;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr std::uint32_t kMax32 = 0xFFFFFFFF;

template <class T>
HostileCase with(std::string id, std::string key, T value, Detail detail) {
  return mutated(
      std::move(id), [=](GgufFile& f) { f.set("gemma3." + key, value); }, {detail},
      detail == Detail::none ? "" : "gemma3.");
}

HostileCase without(std::string id, std::string key, Detail detail) {
  return mutated(
      std::move(id), [=](GgufFile& f) { f.remove(key); }, {detail},
      detail == Detail::none ? "" : key);
}

HostileCase architecture(std::string id, std::string text) {
  return mutated(
      std::move(id), [=](GgufFile& f) { f.set("general.architecture", text); }, {Detail::arch},
      "is not supported");
}

void resize(FileTensor& tensor, std::vector<std::uint64_t> dims) {
  std::uint64_t n_elements = 1;
  for (const std::uint64_t dim : dims) n_elements *= dim;
  tensor.dims = std::move(dims);
  tensor.data.resize(n_elements * sizeof(float));
}

HostileCase resized(std::string id, std::string tensor, std::vector<std::uint64_t> dims,
                    Detail detail) {
  return mutated(
      std::move(id), [=](GgufFile& f) { resize(f.tensor(tensor), dims); }, {detail},
      detail == Detail::shape ? tensor : "");
}

HostileCase retyped(std::string id, std::string tensor, Type type, std::size_t n_bytes) {
  return mutated(
      std::move(id),
      [=](GgufFile& f) {
        f.tensor(tensor).type = static_cast<std::uint32_t>(type);
        f.tensor(tensor).data.resize(n_bytes);
      },
      {Detail::type}, tensor);
}

std::vector<HostileCase> tensor_cases() {
  return {
      retyped("G65_norm_as_q8_0", "blk.1.attn_norm.weight", Type::q8_0, 34),
      retyped("G65_norm_as_f16", "output_norm.weight", Type::f16, 64),
      retyped("G65_embedding_as_i32", "token_embd.weight", Type::i32, 4 * 32 * kTinyVocab),
      resized("G66_transposed", "blk.3.attn_k.weight", {16, 32}, Detail::shape),
      resized("G67_same_count_other_shape", "blk.3.ffn_up.weight", {16, 128}, Detail::shape),
      resized("G67_same_count_three_dimensions", "blk.3.ffn_up.weight", {32, 32, 2}, Detail::shape),
      resized("G68_embedding_too_wide", "token_embd.weight", {33, kTinyVocab}, Detail::shape),
      resized("G68_embedding_too_narrow", "token_embd.weight", {31, kTinyVocab}, Detail::shape),
      resized("G68_embedding_row_too_many", "token_embd.weight", {32, kTinyVocab + 1},
              Detail::none),
      resized("G68_embedding_row_too_few", "token_embd.weight", {32, kTinyVocab - 1},
              Detail::vocab),
      mutated(
          "G71_output_of_the_wrong_shape",
          [](GgufFile& f) {
            f.tensors.push_back({.name = "output.weight"});
            resize(f.tensors.back(), {32, kTinyVocab - 1});
          },
          {Detail::shape}, "output.weight"),
      accepted("G71_untied_output",
               [](GgufFile& f) {
                 f.tensors.push_back({.name = "output.weight"});
                 resize(f.tensors.back(), {32, kTinyVocab});
               }),
  };
}

HostileCase stray(std::string id, std::string name) {
  return accepted(std::move(id), [=](GgufFile& f) {
    f.tensors.push_back({.name = name});
    resize(f.tensors.back(), {32});
  });
}

std::vector<HostileCase> stray_cases() {
  return {
      stray("G69_block_7", "blk.7.attn_norm.weight"),
      stray("G69_block_minus_1", "blk.-1.attn_norm.weight"),
      stray("G69_block_2_32", "blk.4294967296.attn_norm.weight"),
      stray("G69_block_01", "blk.01.attn_norm.weight"),
      stray("G69_block_without_number", "blk..attn_norm.weight"),
      mutated(
          "G69_complete_extra_block",
          [](GgufFile& f) {
            const GgufFile longer = tiny_model(Type::f32, {.n_layers = 8});
            f.tensors = longer.tensors;
            f.remove_tensor("blk.2.ffn_up.weight");  // HPARAM goes before MISSING
          },
          {Detail::hparam}, "block_count"),
  };
}

std::vector<HostileCase> missing_tensor_cases() {
  std::vector<HostileCase> cases;
  const GgufFile file = tiny_model();
  for (std::size_t i = 0; i < file.tensors.size(); ++i) {
    const std::string name = file.tensors[i].name;
    cases.push_back(mutated(
        "G70_tensor_" + std::to_string(i), [name](GgufFile& f) { f.remove_tensor(name); },
        {Detail::missing}, name));
  }
  return cases;
}

std::vector<HostileCase> architecture_cases() {
  return {
      without("G84_missing", "general.architecture", Detail::missing),
      architecture("G84_llama", "llama"),
      architecture("G84_gemma2", "gemma2"),
      architecture("G84_gemma3n", "gemma3n"),
      architecture("G84_empty", ""),
      architecture("G84_with_nul", std::string("gemma3\0x", 8)),
      architecture("G84_1_mib", std::string(1 << 20, '\x1B')),
  };
}

std::vector<HostileCase> block_count_cases() {
  std::vector<HostileCase> cases;
  for (const std::uint32_t n : {0u, 6u, 8u, 257u, 100'000u, kMax32})
    cases.push_back(with("G85_block_count_" + std::to_string(n), "block_count", n, Detail::hparam));
  return cases;
}

std::vector<HostileCase> size_cases() {
  const std::string heads = "attention.head_count", kv_heads = "attention.head_count_kv";
  const std::string key_length = "attention.key_length";
  return {
      with("G86_head_count_0", heads, 0u, Detail::hparam),
      with("G86_head_count_3", heads, 3u, Detail::hparam),
      with("G86_head_count_2_31", heads, 1u << 31, Detail::hparam),
      without("G86_head_count_absent", "gemma3.attention.head_count", Detail::missing),
      with("G87_head_count_kv_0", kv_heads, 0u, Detail::hparam),
      with("G87_head_count_kv_2", kv_heads, 2u, Detail::hparam),
      with("G87_head_count_kv_3", kv_heads, 3u, Detail::hparam),
      with("G87_head_count_kv_max", kv_heads, kMax32, Detail::hparam),
      with("G88_key_length_0", key_length, 0u, Detail::hparam),
      with("G88_key_length_15", key_length, 15u, Detail::hparam),
      with("G88_key_length_32", key_length, 32u, Detail::hparam),
      with("G88_key_length_255", key_length, 255u, Detail::hparam),
      with("G88_key_length_2_31", key_length, 1u << 31, Detail::hparam),
      with("G88_value_length_8", "attention.value_length", 8u, Detail::hparam),
      with("G89_embedding_length_0", "embedding_length", 0u, Detail::hparam),
      with("G89_embedding_length_31", "embedding_length", 31u, Detail::hparam),
      with("G89_embedding_length_max", "embedding_length", kMax32, Detail::hparam),
      with("G90_feed_forward_length_0", "feed_forward_length", 0u, Detail::hparam),
      with("G90_feed_forward_length_65", "feed_forward_length", 65u, Detail::hparam),
      with("G91_context_length_0", "context_length", 0u, Detail::hparam),
      with("G91_context_length_max", "context_length", kMax32, Detail::none),
  };
}

HostileCase pattern(std::string id, std::vector<bool> is_local, Detail detail) {
  return mutated(
      std::move(id),
      [=](GgufFile& f) { f.set_array("gemma3.attention.sliding_window_pattern", is_local); },
      {detail}, detail == Detail::none ? "" : "sliding_window_pattern");
}

std::vector<HostileCase> window_cases() {
  const std::string window = "attention.sliding_window";
  return {
      with("G92_window_0", window, 0u, Detail::hparam),
      with("G92_window_1", window, 1u, Detail::none),
      with("G92_window_beyond_the_context", window, 129u, Detail::none),
      with("G92_window_max", window, kMax32, Detail::none),
      with("G92_window_minus_1", window, std::int32_t{-1}, Detail::type),
      with("G93_pattern_0", window + "_pattern", 0u, Detail::hparam),
      with("G93_pattern_6", window + "_pattern", 6u, Detail::none),
      with("G93_pattern_max", window + "_pattern", kMax32, Detail::none),
      pattern("G93_array_too_short", std::vector<bool>(6), Detail::hparam),
      pattern("G93_array_too_long", std::vector<bool>(8), Detail::hparam),
      pattern("G93_array_empty", {}, Detail::hparam),
      pattern("G93_array", std::vector<bool>(7), Detail::none),
  };
}

std::vector<HostileCase> float_cases() {
  std::vector<HostileCase> cases;
  const std::vector<std::pair<std::string, float>> odd = {
      {"0", 0.0f}, {"minus_1", -1.0f}, {"nan", kNan}, {"inf", kInfinity}, {"1e30", 1e30f}};
  for (const auto& [name, value] : odd) {
    cases.push_back(
        with("G94_rms_eps_" + name, "attention.layer_norm_rms_epsilon", value, Detail::hparam));
    for (const std::string key :
         {"rope.freq_base", "rope.local.freq_base", "rope.freq_base_swa", "rope.scaling.factor"}) {
      std::string id = "G95_" + key + "_" + name;
      std::replace(id.begin(), id.end(), '.', '_');
      cases.push_back(with(id, key, value, Detail::hparam));
    }
  }
  for (const std::string key : {"final_logit_softcapping", "attn_logit_softcapping"}) {
    cases.push_back(with("G96_" + key + "_0", key, 0.0f, Detail::none));
    cases.push_back(with("G96_" + key + "_nan", key, kNan, Detail::hparam));
    cases.push_back(with("G96_" + key + "_minus_30", key, -30.0f, Detail::hparam));
    cases.push_back(with("G96_" + key + "_inf", key, kInfinity, Detail::hparam));
    cases.push_back(with("G96_" + key + "_30", key, 30.0f, Detail::unsupported));
  }
  return cases;
}

std::vector<HostileCase> rope_cases() {
  const auto scaling = [](std::string id, std::string type, Detail detail) {
    return mutated(
        std::move(id), [=](GgufFile& f) { f.set("gemma3.rope.scaling.type", type); }, {detail},
        detail == Detail::none ? "" : "rope.scaling.type");
  };
  const std::string rotated = "rope.dimension_count";
  return {
      scaling("G95_scaling_linear", "linear", Detail::none),
      scaling("G95_scaling_none", "none", Detail::none),
      scaling("G95_scaling_yarn", "yarn", Detail::unsupported),
      scaling("G95_scaling_empty", "", Detail::unsupported),
      with("G95_rotated_0", rotated, 0u, Detail::hparam),
      with("G95_rotated_15", rotated, 15u, Detail::hparam),
      with("G95_rotated_17", rotated, 17u, Detail::hparam),
      with("G95_rotated_part", rotated, 8u, Detail::unsupported),
      with("G95_rotated_all", rotated, 16u, Detail::none),
  };
}

// G40
std::vector<HostileCase> type_cases() {
  using gguf::ValueType;
  std::vector<HostileCase> cases;
  for (const char* key : {"general.architecture", "general.name", "gemma3.rope.scaling.type"})
    append_wrong_types(cases, key, ValueType::string);
  for (const char* key :
       {"general.alignment", "general.file_type", "gemma3.block_count", "gemma3.context_length",
        "gemma3.embedding_length", "gemma3.feed_forward_length", "gemma3.attention.head_count",
        "gemma3.attention.head_count_kv", "gemma3.attention.key_length",
        "gemma3.attention.value_length", "gemma3.attention.sliding_window",
        "gemma3.rope.dimension_count"})
    append_wrong_types(cases, key, ValueType::u32);
  for (const char* key :
       {"gemma3.attention.layer_norm_rms_epsilon", "gemma3.rope.freq_base",
        "gemma3.rope.local.freq_base", "gemma3.rope.freq_base_swa", "gemma3.rope.scaling.factor",
        "gemma3.final_logit_softcapping", "gemma3.attn_logit_softcapping"})
    append_wrong_types(cases, key, ValueType::f32);
  append_wrong_scalars(cases, "gemma3.attention.sliding_window_pattern", ValueType::u32);
  append_wrong_arrays(cases, "gemma3.attention.sliding_window_pattern", ValueType::boolean);
  return cases;
}

ENGINE_HOSTILE_SUITE(ModelTensor, tensor_cases());
ENGINE_HOSTILE_SUITE(StrayTensor, stray_cases());
ENGINE_HOSTILE_SUITE(MissingTensor, missing_tensor_cases());
ENGINE_HOSTILE_SUITE(Architecture, architecture_cases());
ENGINE_HOSTILE_SUITE(BlockCount, block_count_cases());
ENGINE_HOSTILE_SUITE(Sizes, size_cases());
ENGINE_HOSTILE_SUITE(Window, window_cases());
ENGINE_HOSTILE_SUITE(FloatKeys, float_cases());
ENGINE_HOSTILE_SUITE(Rope, rope_cases());
ENGINE_HOSTILE_SUITE(KeyType, type_cases());

}  // namespace
}  // namespace engine::test
