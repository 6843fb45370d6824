// The real model gives the same bits at every instruction-set level, thread count and chunk size.
#include <gtest/gtest.h>

#include <span>

#include "tests/support/batch.h"
#include "tests/support/model_file.h"
#include "tests/support/reference.h"
#include "tests/support/same_bits.h"

namespace engine {
namespace {

using test::logits_after;
using test::same_bits;

Model load(cpu::Isa isa, int n_threads) {
  return test::load_at(test::model_file(), isa, n_threads);
}

TEST(RealSameBits, OverInstructionSetsAndThreads) {
  const test::ReferenceText text = test::reference_texts("logits.json")[0];
  const std::span<const Token> tokens = std::span(text.ids).first(64);
  const std::vector<float> expected = logits_after(load(cpu::Isa::scalar, 2), tokens, {});
  for (const cpu::Isa isa : cpu::supported_isas())
    for (const int n_threads : {1, 2, 3, 5}) {
      // The scalar level is slow, and threads are the best level's business.
      if (isa == cpu::Isa::scalar && n_threads != 2) continue;
      EXPECT_TRUE(same_bits(logits_after(load(isa, n_threads), tokens, {}), expected))
          << cpu::name(isa) << ", " << n_threads << " threads";
    }
}

TEST(RealSameBits, OverChunkSizes) {
  const test::ReferenceText text = test::reference_texts("logits.json")[0];
  const Model model = load(cpu::best_isa(), 2);
  for (const std::size_t n : {513u, 1025u}) {
    const std::span<const Token> tokens = std::span(text.ids).first(n);
    const std::vector<float> expected = logits_after(model, tokens, {.n_chunk = 0});
    for (const int n_chunk : {7, 64, 512})
      EXPECT_TRUE(same_bits(logits_after(model, tokens, {.n_chunk = n_chunk}), expected))
          << n << " tokens in chunks of " << n_chunk;
  }
  const std::span<const Token> tokens = std::span(text.ids).first(100);
  EXPECT_TRUE(same_bits(logits_after(model, tokens, {.n_chunk = 1}),
                        logits_after(model, tokens, {.n_chunk = 0})))
      << "token by token";
}

TEST(RealSameBits, OverBatches) {
  const test::ReferenceText text = test::reference_texts("logits.json")[0];
  const Model model = load(cpu::best_isa(), 2);
  std::vector<std::vector<Token>> prompts;
  for (const std::size_t n : {1u, 63u, 64u, 20u, 127u, 100u, 65u, 40u})
    prompts.emplace_back(text.ids.begin() + static_cast<std::ptrdiff_t>(n),
                         text.ids.begin() + static_cast<std::ptrdiff_t>(2 * n));
  test::expect_batch_as_alone(model, model, prompts, 4, {});
}

}  // namespace
}  // namespace engine

int main(int argc, char** argv) { return engine::test::run_tests_with_model(argc, argv); }
