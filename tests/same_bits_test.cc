// The same bits whatever the chunk size, thread count and instruction set, on the shipped tiny
// models.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

#include "kernels/cpu/select.h"
#include "tests/support/model_file.h"
#include "tests/support/reference.h"

namespace engine {
namespace {

struct Setting {
  int n_threads = 2;
  int n_chunk = 512;
  cpu::Isa isa = cpu::best_isa();
  KvType kv = KvType::f16;
};

Model load(const std::string& file, const Setting& setting) {
  // Read once, when the pool is made.
  ::setenv("ENGINE_CPU_ISA", std::string(cpu::name(setting.isa)).c_str(), 1);
  auto model = Model::load(test::golden_file("tiny/" + file), {.n_threads = setting.n_threads});
  ::unsetenv("ENGINE_CPU_ISA");
  EXPECT_TRUE(model) << model.status().message();
  EXPECT_NE(model->info().backend.find(cpu::name(setting.isa)), std::string::npos)
      << model->info().backend;
  return *model;
}

// `n` tokens that are no end of anything.
std::vector<Token> some_tokens(int n) {
  std::vector<Token> tokens = {2};
  for (int i = 1; i < n; ++i) tokens.push_back(10 + (i * 7919) % 490);
  return tokens;
}

std::vector<float> last_logits(const Model& model, std::span<const Token> tokens,
                               const Setting& setting) {
  auto session = Session::create(model, {.n_chunk = setting.n_chunk, .kv = setting.kv});
  EXPECT_TRUE(session) << session.status().message();
  const Status status = session->decode(tokens);
  EXPECT_TRUE(status.ok()) << status.message();
  const auto logits = session->logits();
  EXPECT_TRUE(logits) << logits.status().message();
  return {logits->begin(), logits->end()};
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

class SameBits : public testing::TestWithParam<std::string> {};

TEST_P(SameBits, OverThreadsAndInstructionSets) {
  const std::vector<Token> tokens = some_tokens(70);
  for (const KvType kv : {KvType::f16, KvType::f32}) {
    const Setting base = {.n_threads = 1, .isa = cpu::Isa::scalar, .kv = kv};
    const std::vector<float> expected = last_logits(load(GetParam(), base), tokens, base);
    const auto check = [&](cpu::Isa isa, int n_threads) {
      const Setting setting = {.n_threads = n_threads, .isa = isa, .kv = kv};
      EXPECT_TRUE(same_bits(last_logits(load(GetParam(), setting), tokens, setting), expected))
          << cpu::name(isa) << ", " << n_threads << " threads";
    };
    for (const cpu::Isa isa : cpu::supported_isas()) check(isa, 2);
    for (const int n_threads : {1, 3, 5}) check(cpu::best_isa(), n_threads);
  }
}

TEST_P(SameBits, OverChunkSizes) {
  const Model model = load(GetParam(), {});
  for (const int n : {1, 65, 129}) {
    const std::vector<Token> tokens = some_tokens(n);
    const std::vector<float> expected = last_logits(model, tokens, {.n_chunk = 0});
    for (const int n_chunk : {1, 7, 64})
      EXPECT_TRUE(same_bits(last_logits(model, tokens, {.n_chunk = n_chunk}), expected))
          << n << " tokens in chunks of " << n_chunk;
  }
}

INSTANTIATE_TEST_SUITE_P(Files, SameBits,
                         testing::Values("tiny-nano-F32.gguf", "tiny-nano-BF16.gguf",
                                         "tiny-nano-Q5_1.gguf", "tiny-mqa-Q4_K_M.gguf",
                                         "tiny-mqa-Q3_K_M.gguf", "tiny-mqa-Q2_K.gguf",
                                         "tiny-mqa-IQ4_XS.gguf", "tiny-gqa-Q8_0.gguf",
                                         "tiny-mixed-Q4_K_M.gguf"),
                         [](const auto& tiny) {
                           std::string name = tiny.param.substr(0, tiny.param.find('.'));
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(SameBitsAt, EveryPromptLength) {
  const Model model = load("tiny-mixed-Q4_K_M.gguf", {});
  const std::vector<Token> tokens = some_tokens(130);
  auto by_token = Session::create(model);
  ASSERT_TRUE(by_token);
  for (std::size_t n = 1; n <= tokens.size(); ++n) {
    ASSERT_TRUE(by_token->decode(std::span(tokens).subspan(n - 1, 1)).ok());
    const auto step = by_token->logits();
    ASSERT_TRUE(step);
    EXPECT_TRUE(
        same_bits(last_logits(model, std::span(tokens).first(n), {}), {step->begin(), step->end()}))
        << n << " tokens";
  }
}

TEST(SameBitsAt, PageAndWindowBorders) {
  const Model model = load("tiny-gqa-Q8_0.gguf", {});
  for (const int n : {511, 512, 513, 1023, 1024, 1025}) {
    const std::vector<Token> tokens = some_tokens(n);
    const std::vector<float> expected = last_logits(model, tokens, {.n_chunk = 1});
    for (const int n_chunk : {7, 64, 512, 0})
      EXPECT_TRUE(same_bits(last_logits(model, tokens, {.n_chunk = n_chunk}), expected))
          << n << " tokens in chunks of " << n_chunk;
  }
}

}  // namespace
}  // namespace engine
