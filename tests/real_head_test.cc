// The screened head of the real model: the full head's tokens, for half of its bytes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <vector>

#include "engine/engine.h"
#include "tests/support/model_file.h"
#include "tests/support/reference.h"

namespace engine {
namespace {

Model load(HeadMode head) { return Model::load(test::model_file(), {.head = head}).value(); }

// Goes through the reference's texts and chooses after each token; with HeadMode::check every choice compares
// all its candidates with the full head's.
int choose_after_each(const Model& model, std::span<const Token> text,
                      const SamplerOptions& sampler) {
  Session session = Session::create(model).value();
  int n = 0;
  for (const Token token : text) {
    EXPECT_TRUE(session.decode({&token, 1}).ok());
    const Result<Token> chosen = session.sample(sampler);
    EXPECT_TRUE(chosen) << chosen.status().message();
    if (!chosen) break;
    ++n;
  }
  return n;
}

TEST(RealHead, TwoThousandPositions) {
  constexpr std::size_t kPositions = 350;  // of each text
  const Model model = load(HeadMode::check);
  int n = 0;
  for (const test::ReferenceText& text : test::reference_texts("logits.json"))
    for (const SamplerOptions& sampler :
         {SamplerOptions{.temperature = 0}, SamplerOptions{.top_k = 64, .seed = 5}}) {
      // Another part of the text for each.
      const std::size_t first = sampler.temperature == 0 ? 0 : text.ids.size() - kPositions;
      n += choose_after_each(model, std::span(text.ids).subspan(first, kPositions), sampler);
    }
  std::printf("%d choices compared\n", n);
  EXPECT_EQ(n, 2100);
}

// Of the answers to the reference's prompts.
void check_share(const SamplerOptions& sampler, double most) {
  const Model screened = load(HeadMode::screened), full = load(HeadMode::full);
  double sum = 0;
  int n = 0;
  for (const test::ReferenceAnswer& answer : test::reference_answers()) {
    std::vector<Generated> both;
    for (const Model& model : {screened, full}) {
      Session session = Session::create(model).value();
      both.push_back(generate(session, sampler, answer.prompt_ids,
                              {.max_tokens = 48, .ignore_eos = true, .n_draft = 0})
                         .value());
    }
    EXPECT_EQ(both[0].ids, both[1].ids) << answer.prompt;
    EXPECT_EQ(both[1].head_share, 1);
    sum += both[0].head_share;
    ++n;
  }
  std::printf("%.1f %% of the head's bytes read\n", 100 * sum / n);
  EXPECT_LE(sum / n, most);
}

TEST(RealHead, ShareReadGreedily) { check_share({.temperature = 0}, 0.65); }
TEST(RealHead, ShareReadForSixtyFour) { check_share({.top_k = 64, .seed = 1}, 0.80); }

}  // namespace
}  // namespace engine

int main(int argc, char** argv) { return engine::test::run_tests_with_model(argc, argv); }
