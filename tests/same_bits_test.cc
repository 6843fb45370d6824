// The same bits whatever the chunk size, thread count and instruction set, on tiny models.
#include "tests/support/same_bits.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "tests/support/model_file.h"
#include "tests/support/sessions.h"

namespace engine {
namespace {

using test::logits_after;
using test::same_bits;
using test::some_tokens;

Model load(const std::string& file, cpu::Isa isa = cpu::best_isa(), int n_threads = 2) {
  return test::load_at(test::golden_file("tiny/" + file), isa, n_threads);
}

class SameBits : public testing::TestWithParam<std::string> {};

TEST_P(SameBits, OverThreadsAndInstructionSets) {
  const std::vector<Token> tokens = some_tokens(70);
  for (const KvType kv : {KvType::f16, KvType::f32}) {
    const std::vector<float> expected =
        logits_after(load(GetParam(), cpu::Isa::scalar, 1), tokens, {.kv = kv});
    const auto check = [&](cpu::Isa isa, int n_threads) {
      const Model model = load(GetParam(), isa, n_threads);
      EXPECT_TRUE(same_bits(logits_after(model, tokens, {.kv = kv}), expected))
          << cpu::name(isa) << ", " << n_threads << " threads";
    };
    for (const cpu::Isa isa : cpu::supported_isas()) check(isa, 2);
    for (const int n_threads : {1, 3, 5}) check(cpu::best_isa(), n_threads);
  }
}

TEST_P(SameBits, OverChunkSizes) {
  const Model model = load(GetParam());
  for (const int n : {1, 65, 129}) {
    const std::vector<Token> tokens = some_tokens(n);
    const std::vector<float> expected = logits_after(model, tokens, {.n_chunk = 0});
    for (const int n_chunk : {1, 7, 64})
      EXPECT_TRUE(same_bits(logits_after(model, tokens, {.n_chunk = n_chunk}), expected))
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
  const Model model = load("tiny-mixed-Q4_K_M.gguf");
  const std::vector<Token> tokens = some_tokens(130);
  auto by_token = Session::create(model);
  ASSERT_TRUE(by_token);
  for (std::size_t n = 1; n <= tokens.size(); ++n) {
    ASSERT_TRUE(by_token->decode(std::span(tokens).subspan(n - 1, 1)).ok());
    const auto step = by_token->logits();
    ASSERT_TRUE(step);
    EXPECT_TRUE(same_bits(logits_after(model, std::span(tokens).first(n), {}), *step))
        << n << " tokens";
  }
}

TEST(SameBitsAt, PageAndWindowBorders) {
  const Model model = load("tiny-gqa-Q8_0.gguf");
  for (const int n : {511, 512, 513, 1023, 1024, 1025}) {
    const std::vector<Token> tokens = some_tokens(n);
    const std::vector<float> expected = logits_after(model, tokens, {.n_chunk = 1});
    for (const int n_chunk : {7, 64, 512, 0})
      EXPECT_TRUE(same_bits(logits_after(model, tokens, {.n_chunk = n_chunk}), expected))
          << n << " tokens in chunks of " << n_chunk;
  }
}

}  // namespace
}  // namespace engine
