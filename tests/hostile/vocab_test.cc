// The vocabulary: lists that contradict each other, special ids, byte tokens.
#include "tokenizer/vocab.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>

#include "gguf/reader.h"
#include "tests/hostile/hostile_case.h"
#include "tests/hostile/wrong_types.h"

namespace engine::test {
namespace {

const std::string kTokens = "tokenizer.ggml.tokens";
const std::string kScores = "tokenizer.ggml.scores";
const std::string kTypes = "tokenizer.ggml.token_type";

constexpr std::size_t kByte41 = 8 + 0x41;  // the token <0x41> of the tiny model
constexpr std::size_t kPiece = 400;        // an ordinary piece

std::vector<float> tiny_scores(std::size_t n) {
  std::vector<float> scores;
  for (std::size_t t = 0; t < n; ++t) scores.push_back(-static_cast<float>(t));
  return scores;
}

HostileCase with_token(std::string id, std::size_t t, std::string text,
                       std::vector<Detail> accepted) {
  return mutated(
      std::move(id),
      [=](GgufFile& f) {
        std::vector<std::string> tokens = tiny_tokens();
        tokens[t] = text;
        f.set_strings(kTokens, tokens);
      },
      std::move(accepted));
}

// The first n tokens, with as many scores and types.
void resize_vocabulary(GgufFile& file, std::size_t n) {
  std::vector<std::string> tokens = tiny_tokens();
  while (tokens.size() < n) tokens.push_back("more" + std::to_string(tokens.size()));
  tokens.resize(n);
  std::vector<std::int32_t> types(n, 1);
  for (std::size_t t = 0; t < n; ++t) types[t] = t < 6 ? 3 : t < 8 ? 4 : t < 8 + 256 ? 6 : 1;
  file.set_strings(kTokens, tokens);
  file.set_array(kScores, tiny_scores(n));
  file.set_array(kTypes, types);
}

HostileCase with_size(std::string id, std::size_t n, Detail detail) {
  return mutated(std::move(id), [n](GgufFile& f) { resize_vocabulary(f, n); }, {detail});
}

HostileCase with_score(std::string id, float score) {
  return mutated(
      std::move(id),
      [score](GgufFile& f) {
        std::vector<float> scores = tiny_scores(kTinyVocab);
        scores[kPiece] = score;
        f.set_array(kScores, scores);
      },
      {Detail::vocab}, "400");
}

HostileCase with_type(std::string id, std::int32_t type) {
  return mutated(
      std::move(id),
      [type](GgufFile& f) {
        resize_vocabulary(f, kTinyVocab);
        std::byte* last = &f.entry(kTypes).value.back() - 3;
        std::memcpy(last, &type, sizeof type);
      },
      {Detail::vocab}, "511");
}

std::vector<HostileCase> list_cases() {
  return {
      mutated(
          "G97_no_tokens", [](GgufFile& f) { f.remove(kTokens); }, {Detail::missing}, kTokens),
      mutated(
          "G97_no_scores", [](GgufFile& f) { f.remove(kScores); }, {Detail::missing}, kScores),
      mutated(
          "G97_no_types", [](GgufFile& f) { f.remove(kTypes); }, {Detail::missing}, kTypes),
      with_size("G98_empty_list", 0, Detail::vocab),
      with_size("G98_one_more_than_rows", kTinyVocab + 1, Detail::vocab),
      with_size("G98_one_less_than_rows", kTinyVocab - 1, Detail::none),
      mutated(
          "G99_one_score_less",
          [](GgufFile& f) { f.set_array(kScores, tiny_scores(kTinyVocab - 1)); }, {Detail::vocab},
          kScores),
      mutated(
          "G99_one_score_more",
          [](GgufFile& f) { f.set_array(kScores, tiny_scores(kTinyVocab + 1)); }, {Detail::vocab},
          kScores),
      mutated(
          "G100_scores_as_u8",
          [](GgufFile& f) { f.set_array(kScores, std::vector<std::uint8_t>(kTinyVocab)); },
          {Detail::type}, kScores),
      mutated(
          "G100_scores_as_f64",
          [](GgufFile& f) { f.set_array(kScores, std::vector<double>(kTinyVocab)); },
          {Detail::type}, kScores),
      with_score("G101_nan_score", std::numeric_limits<float>::quiet_NaN()),
      with_score("G101_infinite_score", std::numeric_limits<float>::infinity()),
      mutated(
          "G102_one_type_less",
          [](GgufFile& f) { f.set_array(kTypes, std::vector<std::int32_t>(kTinyVocab - 1, 1)); },
          {Detail::vocab}, kTypes),
      mutated(
          "G102_types_as_u8",
          [](GgufFile& f) { f.set_array(kTypes, std::vector<std::uint8_t>(kTinyVocab, 1)); },
          {Detail::type}, kTypes),
      with_type("G102_type_0", 0),
      with_type("G102_type_7", 7),
      with_type("G102_type_minus_1", -1),
  };
}

std::vector<HostileCase> special_id_cases() {
  std::vector<HostileCase> cases;
  for (const std::string name : {"bos", "eos", "eot", "unknown", "padding"})
    for (const std::uint32_t id : {std::uint32_t{kTinyVocab}, 0xFFFFFFFFu}) {
      const std::string key = "tokenizer.ggml." + name + "_token_id";
      cases.push_back(mutated(
          "G103_" + name + "_" + std::to_string(id), [=](GgufFile& f) { f.set(key, id); },
          {Detail::vocab}, key));
    }
  cases.push_back(mutated("G104_defaults_beyond_one_token",
                          [](GgufFile& f) {
                            resize_vocabulary(f, 1);
                            for (const char* name : {"bos", "eos", "unknown", "padding"})
                              f.remove("tokenizer.ggml." + std::string(name) + "_token_id");
                          },
                          {Detail::vocab}));
  return cases;
}

std::vector<HostileCase> text_cases() {
  const std::vector<Detail> vocab = {Detail::vocab}, any = {Detail::none, Detail::vocab};
  return {
      with_token("G105_signed_byte", kByte41, "<0x-1>", vocab),
      with_token("G106_not_hexadecimal", kByte41, "<0xZZ>", vocab),
      with_token("G106_one_digit", kByte41, "<0x1>", vocab),
      with_token("G106_three_digits", kByte41, "<0x100>", vocab),
      with_token("G108_duplicate_byte", kByte41, "<0x42>", vocab),
      mutated(
          "G107_missing_byte",
          [](GgufFile& f) {
            const std::int32_t normal = 1;
            std::byte* types = f.entry(kTypes).value.data() + 12;  // behind type and count
            std::memcpy(types + kByte41 * sizeof normal, &normal, sizeof normal);
          },
          vocab),
      with_token("G109_empty", kPiece, "", {Detail::none}),
      with_token("G109_1_mib", kPiece, std::string(1 << 20, 'x'), {Detail::none}),
      with_token("G109_above_1_mib", kPiece, std::string((1 << 20) + 1, 'x'), {Detail::limit}),
      with_token("G109_with_nul", kPiece, std::string("a\0b", 3), {Detail::none}),
      with_token("G109_not_utf8", kPiece, "\xFF\xFE", {Detail::none}),
      with_token("G109_duplicate_text", kPiece, "a", {Detail::none}),
      with_token("G109_control_token_of_1_mib", 0, std::string(1 << 20, 'x'), any),
  };
}

HostileCase template_text(std::string id, std::string text) {
  return accepted(std::move(id), [=](GgufFile& f) { f.set("tokenizer.chat_template", text); });
}

std::vector<HostileCase> setting_cases() {
  const auto model = [](std::string id, std::string text) {
    return mutated(
        std::move(id), [=](GgufFile& f) { f.set("tokenizer.ggml.model", text); },
        {Detail::unsupported}, "tokenizer.ggml.model");
  };
  return {
      model("G110_gpt2", "gpt2"),
      model("G110_empty", ""),
      mutated(
          "G110_absent", [](GgufFile& f) { f.remove("tokenizer.ggml.model"); },
          {Detail::unsupported, Detail::missing}, "tokenizer.ggml.model"),
      mutated(
          "G111_add_bos_as_string",
          [](GgufFile& f) { f.set("tokenizer.ggml.add_bos_token", "true"); }, {Detail::type},
          "add_bos_token"),
      template_text("G112_long_loop", "{% for i in range(10**9) %}x{% endfor %}"),
      template_text("G112_recursive_macro", "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"),
      template_text("G112_long_string", "{{ 'x' * 10**10 }}"),
      template_text("G112_class_escape", "{{ ''.__class__.__mro__[1].__subclasses__() }}"),
  };
}

// G40 for the tokenizer's keys.
std::vector<HostileCase> type_cases() {
  using gguf::ValueType;
  std::vector<HostileCase> cases;
  append_not_array_of(cases, kTokens, ValueType::string);
  append_not_array_of(cases, kScores, ValueType::f32);
  append_not_array_of(cases, kTypes, ValueType::i32);
  for (const char* name : {"bos", "eos", "eot", "unknown", "padding"})
    append_wrong_types(cases, "tokenizer.ggml." + std::string(name) + "_token_id", ValueType::u32);
  append_wrong_types(cases, "tokenizer.ggml.model", ValueType::string);
  append_wrong_types(cases, "tokenizer.ggml.pre", ValueType::string);
  append_wrong_types(cases, "tokenizer.ggml.add_bos_token", ValueType::boolean);
  append_wrong_types(cases, "tokenizer.ggml.add_eos_token", ValueType::boolean);
  append_wrong_types(cases, "tokenizer.ggml.add_space_prefix", ValueType::boolean);
  return cases;
}

// Gemma's prompts never end in EOS, whatever the key says.
TEST(AddEos, IsIgnoredWithAWarning) {
  for (const bool add_eos : {false, true}) {
    GgufFile file = tiny_model();
    file.set("tokenizer.ggml.add_eos_token", add_eos);
    const Bytes bytes = file.build();
    const auto reader = gguf::Reader::open(bytes);
    ASSERT_TRUE(reader) << reader.status().message();
    const auto vocab = tokenizer::Vocab::from_file(*reader, 512);
    ASSERT_TRUE(vocab) << vocab.status().message();
    const auto mentions = [](const std::string& warning) {
      return warning.find("add_eos_token") != std::string::npos;
    };
    const auto warnings = vocab->warnings();
    EXPECT_EQ(std::count_if(warnings.begin(), warnings.end(), mentions), add_eos ? 1 : 0);
  }
}

ENGINE_HOSTILE_SUITE(TokenList, list_cases());
ENGINE_HOSTILE_SUITE(SpecialId, special_id_cases());
ENGINE_HOSTILE_SUITE(TokenText, text_cases());
ENGINE_HOSTILE_SUITE(Setting, setting_cases());
ENGINE_HOSTILE_SUITE(TokenizerKeyType, type_cases());

}  // namespace
}  // namespace engine::test
