// The real model gives the same bits at every instruction-set level, thread count and chunk size.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

#include "kernels/cpu/select.h"
#include "tests/support/model_file.h"
#include "tests/support/reference.h"

namespace engine {
namespace {

std::vector<float> logits_after(const Model& model, std::span<const Token> tokens, int n_chunk) {
  auto session = Session::create(model, {.n_chunk = n_chunk});
  EXPECT_TRUE(session) << session.status().message();
  const Status status = session->decode(tokens);
  EXPECT_TRUE(status.ok()) << status.message();
  const auto logits = session->logits();
  EXPECT_TRUE(logits) << logits.status().message();
  return {logits->begin(), logits->end()};
}

Model load(cpu::Isa isa, int n_threads) {
  ::setenv("ENGINE_CPU_ISA", std::string(cpu::name(isa)).c_str(), 1);
  auto model = Model::load(test::model_file(), {.n_threads = n_threads});
  ::unsetenv("ENGINE_CPU_ISA");
  EXPECT_TRUE(model) << model.status().message();
  return *model;
}

void expect_same(const std::vector<float>& a, const std::vector<float>& b,
                 const std::string& what) {
  ASSERT_EQ(a.size(), b.size());
  EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size() * sizeof(float)), 0) << what;
}

TEST(RealSameBits, OverInstructionSetsAndThreads) {
  const test::ReferenceText text = test::reference_texts("logits.json")[0];
  const std::span<const Token> tokens = std::span(text.ids).first(64);
  const std::vector<float> expected = logits_after(load(cpu::Isa::scalar, 2), tokens, 512);
  for (const cpu::Isa isa : cpu::supported_isas())
    for (const int n_threads : {1, 2, 3, 5}) {
      if (isa == cpu::Isa::scalar && n_threads != 2)
        continue;  // slow, and threads are the best level's business
      expect_same(logits_after(load(isa, n_threads), tokens, 512), expected,
                  std::string(cpu::name(isa)) + ", " + std::to_string(n_threads) + " threads");
    }
}

TEST(RealSameBits, OverChunkSizes) {
  const test::ReferenceText text = test::reference_texts("logits.json")[0];
  const Model model = load(cpu::best_isa(), 2);
  for (const std::size_t n : {513u, 1025u}) {
    const std::span<const Token> tokens = std::span(text.ids).first(n);
    const std::vector<float> expected = logits_after(model, tokens, 0);
    for (const int n_chunk : {7, 64, 512})
      expect_same(logits_after(model, tokens, n_chunk), expected,
                  std::to_string(n) + " tokens in chunks of " + std::to_string(n_chunk));
  }
  const std::span<const Token> tokens = std::span(text.ids).first(100);
  expect_same(logits_after(model, tokens, 1), logits_after(model, tokens, 0), "token by token");
}

}  // namespace
}  // namespace engine

int main(int argc, char** argv) { return engine::test::run_tests_with_model(argc, argv); }
