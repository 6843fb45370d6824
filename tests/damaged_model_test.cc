// Files whose container is sound but whose weights, layout or life time are not what one would wish
// (cases G81, G93, G113, G114, G117-G119), and memory that does not care what happens to the file.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>

#include "engine/engine.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_model.h"

namespace engine {
namespace {

const std::vector<Token> kTokens = {2, 300, 301, 302, 303, 304, 305, 306};

Result<std::vector<float>> logits_of(const Model& model) {
  ENGINE_ASSIGN(Session session, Session::create(model));
  ENGINE_TRY(session.decode(kTokens));
  ENGINE_ASSIGN(const std::span<const float> logits, session.logits());
  return std::vector<float>(logits.begin(), logits.end());
}

Result<std::vector<float>> logits_of(const test::GgufFile& file, const ModelOptions& options = {}) {
  const test::Bytes bytes = file.build();
  ENGINE_ASSIGN(const Model model, Model::load(std::span(bytes), options));
  return logits_of(model);
}

void fill(test::Bytes& bytes, float value) {
  for (std::size_t i = 0; i + sizeof value <= bytes.size(); i += sizeof value)
    std::memcpy(bytes.data() + i, &value, sizeof value);
}

TEST(DamagedModel, NanWeightsEndInAnErrorAndTheNextModelWorks) {
  for (const char* name :
       {"blk.3.ffn_up.weight", "token_embd.weight", "blk.0.attn_k_norm.weight"}) {
    test::GgufFile file = test::tiny_model();
    fill(file.tensor(name).data, std::numeric_limits<float>::quiet_NaN());
    EXPECT_EQ(logits_of(file).status().code(), Code::non_finite) << name;
    const auto checked = logits_of(file, {.check_tensors = true});
    EXPECT_EQ(checked.status().code(), Code::corrupt_file);
    EXPECT_EQ(checked.status().detail(), Detail::value);
    EXPECT_NE(checked.status().message().find(name), std::string::npos)
        << checked.status().message();
    EXPECT_TRUE(logits_of(test::tiny_model()));
  }
}

TEST(DamagedModel, OneInfiniteScaleIsAnErrorOfTheRequest) {
  test::GgufFile file = test::tiny_model(gguf::Type::q8_0);
  const std::uint16_t infinity = 0x7C00;
  std::memcpy(file.tensor("blk.2.attn_output.weight").data.data(), &infinity, sizeof infinity);
  const auto logits = logits_of(file);
  EXPECT_EQ(logits.status().code(), Code::non_finite) << logits.status().message();
  EXPECT_EQ(logits_of(file, {.check_tensors = true}).status().detail(), Detail::value);
}

TEST(DamagedModel, ZeroAndSubnormalWeightsRun) {
  for (const float value : {0.0f, std::numeric_limits<float>::denorm_min(), 1e-40f}) {
    test::GgufFile file = test::tiny_model();
    for (test::FileTensor& tensor : file.tensors) fill(tensor.data, value);
    const auto logits = logits_of(file);
    EXPECT_TRUE(logits) << value << ": " << logits.status().message();
  }
}

TEST(DamagedModel, AResidualStreamBeyondFp16Runs) {
  test::GgufFile file = test::tiny_model();
  fill(file.tensor("blk.1.post_ffw_norm.weight").data, 1e6f);
  EXPECT_TRUE(logits_of(file));
}

TEST(DamagedModel, TheOrderOfTensorsInTheFileDoesNotMatter) {
  test::GgufFile file = test::tiny_model(gguf::Type::q8_0);
  const auto expected = logits_of(file);
  ASSERT_TRUE(expected);
  std::reverse(file.tensors.begin(), file.tensors.end());
  const auto reversed = logits_of(file);
  ASSERT_TRUE(reversed) << reversed.status().message();
  EXPECT_EQ(*reversed, *expected);
}

TEST(DamagedModel, ScalarAndArrayFormOfTheWindowPatternAreTheSame) {
  test::GgufFile file = test::tiny_model();
  file.set<std::uint32_t>("gemma3.attention.sliding_window_pattern", 6);
  const auto scalar = logits_of(file);
  file.set_array<bool>("gemma3.attention.sliding_window_pattern",
                       {true, true, true, true, true, false, true});
  const auto array = logits_of(file);
  ASSERT_TRUE(scalar && array);
  EXPECT_EQ(*scalar, *array);
}

TEST(DamagedModel, RowsWithoutATokenAreNeverChosen) {
  test::GgufFile file = test::tiny_model();
  std::vector<std::string> tokens = test::tiny_tokens();
  tokens.pop_back();
  file.set_strings("tokenizer.ggml.tokens", tokens);
  file.set_array("tokenizer.ggml.scores", std::vector<float>(tokens.size(), -1.0f));
  // Types: what the fixture has, less the last.
  test::FileEntry& types = file.entry("tokenizer.ggml.token_type");
  types.value.resize(types.value.size() - sizeof(std::int32_t));
  const std::uint64_t count = tokens.size();
  std::memcpy(types.value.data() + sizeof(std::uint32_t), &count, sizeof count);
  const auto logits = logits_of(file);
  ASSERT_TRUE(logits) << logits.status().message();
  EXPECT_EQ(logits->back(), -std::numeric_limits<float>::infinity());
}

// What can happen to a file while its model is in use.
class FileGone : public testing::TestWithParam<void (*)(const std::filesystem::path&)> {};

TEST_P(FileGone, TheAnswerStaysTheSame) {
  const test::TempDir dir;
  const std::filesystem::path path = dir.write("model.gguf", test::tiny_model().build());
  const auto model = Model::load(path);
  ASSERT_TRUE(model) << model.status().message();
  const auto before = logits_of(*model);
  GetParam()(path);
  const auto after = logits_of(*model);
  ASSERT_TRUE(before && after);
  EXPECT_EQ(*before, *after);
}

INSTANTIATE_TEST_SUITE_P(
    Ways, FileGone,
    testing::Values(
        [](const std::filesystem::path& path) { std::filesystem::resize_file(path, 0); },
        [](const std::filesystem::path& path) { std::filesystem::remove(path); },
        [](const std::filesystem::path& path) {
          std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
          file << std::string(std::filesystem::file_size(path), '\x5a');
        }));

}  // namespace
}  // namespace engine
