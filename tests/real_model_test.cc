// The real model against the independent reference: the bars of the arithmetic's definition. Each
// test prints what it measured.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "tests/support/model_file.h"
#include "tests/support/reference.h"

namespace engine {
namespace {

// Below this distance between the two best logits the reference itself could go either way.
constexpr double kClearMargin = 0.01;
constexpr int kTopRank = 64;  // a reference id must be at least this likely to us

const Model& model() {
  static const Result<Model> loaded = Model::load(test::model_file());
  if (!loaded) ADD_FAILURE() << loaded.status().message();
  return loaded.value();
}

Session session(const SessionOptions& options = {}) {
  return std::move(Session::create(model(), options)).value();
}

Token argmax(std::span<const float> logits) {
  return static_cast<Token>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

auto rank_of(std::span<const float> logits, Token id) {
  const float logit = logits[static_cast<std::size_t>(id)];
  return std::count_if(logits.begin(), logits.end(), [&](float other) { return other > logit; });
}

void check_text(const test::ReferenceText& text, KvType kv, std::vector<double>& divergences) {
  std::vector<int> positions;
  for (const auto& p : text.positions) positions.push_back(p.pos);
  Session s = session({.kv = kv});
  const auto logits = test::logits_at(s, text.ids, positions);
  ASSERT_TRUE(logits) << logits.status().message();
  for (std::size_t i = 0; i < positions.size(); ++i) {
    const test::ReferencePosition& reference = text.positions[i];
    divergences.push_back(test::divergence(reference, (*logits)[i]));
    if (reference.top[0].second - reference.top[1].second > kClearMargin) {
      EXPECT_EQ(argmax((*logits)[i]), reference.top[0].first)
          << text.name << " position " << positions[i];
    }
    for (const auto& [id, logit] : reference.top)
      EXPECT_LT(rank_of((*logits)[i], id), kTopRank)
          << text.name << " position " << positions[i] << " id " << id;
  }
}

void check_divergence(KvType kv, double bound) {
  std::vector<double> divergences;
  for (const test::ReferenceText& text : test::reference_texts("logits.json"))
    check_text(text, kv, divergences);
  const double mean = std::accumulate(divergences.begin(), divergences.end(), 0.0) /
                      static_cast<double>(divergences.size());
  std::printf("mean divergence over %zu positions: %.3g (bound %.1g)\n", divergences.size(), mean,
              bound);
  EXPECT_LE(mean, bound);
}

TEST(RealModel, LogitsWithF16Cache) { check_divergence(KvType::f16, 2e-6); }
TEST(RealModel, LogitsWithF32Cache) { check_divergence(KvType::f32, 3e-7); }

TEST(RealModel, MeanNegativeLogLikelihood) {
  for (const test::ReferenceText& text : test::reference_texts("logits.json")) {
    Session s = session();
    const auto scores = s.score(text.ids);
    ASSERT_TRUE(scores) << scores.status().message();
    ASSERT_EQ(scores->size(), text.ids.size() - 1);
    const double mean_nll =
        -std::accumulate(scores->begin(), scores->end(), 0.0) / static_cast<double>(scores->size());
    std::printf("%s: mean nll %.6f, reference %.6f\n", text.name.c_str(), mean_nll, text.mean_nll);
    EXPECT_NEAR(mean_nll, text.mean_nll, 1e-4) << text.name;
  }
}

TEST(RealModel, GreedyIds) {
  std::size_t compared = 0;
  for (const test::ReferenceAnswer& answer : test::reference_answers()) {
    Session s = session({.n_ctx = 4096});
    const auto unclear = std::find_if(answer.margin.begin(), answer.margin.end(),
                                      [](double margin) { return margin < kClearMargin; });
    const auto n_clear = static_cast<std::size_t>(unclear - answer.margin.begin());
    const auto generated = generate(s, {.temperature = 0}, answer.prompt_ids,
                                    {.max_tokens = static_cast<int>(n_clear), .ignore_eos = true});
    ASSERT_TRUE(generated) << generated.status().message();
    const std::vector<Token> expected(answer.ids.begin(),
                                      answer.ids.begin() + static_cast<std::ptrdiff_t>(n_clear));
    EXPECT_EQ(generated->ids, expected) << answer.prompt;
    compared += n_clear;
  }
  std::printf("%zu greedy ids compared\n", compared);
  EXPECT_EQ(compared, 1068u);
}

}  // namespace
}  // namespace engine

int main(int argc, char** argv) { return engine::test::run_tests_with_model(argc, argv); }
