// Every weight type and model shape against the independent reference, on models small enough to
// ship.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/support/model_file.h"
#include "tests/support/reference.h"

namespace engine {
namespace {

double worst_error(const test::ReferencePosition& reference, std::span<const float> logits) {
  double worst = std::abs(test::logsumexp(logits) - reference.logsumexp);
  for (const auto& [id, logit] : reference.top)
    worst = std::max(worst, std::abs(logits[static_cast<std::size_t>(id)] - logit));
  for (std::size_t id = 0; id < reference.first16.size(); ++id)
    worst = std::max(worst, std::abs(logits[id] - reference.first16[id]));
  return worst;
}

class TinyLogits : public testing::TestWithParam<test::ReferenceText> {};

TEST_P(TinyLogits, MatchTheReference) {
  const test::ReferenceText& text = GetParam();
  const auto model = Model::load(test::golden_file("tiny/" + text.name));
  ASSERT_TRUE(model) << model.status().message();
  std::vector<int> positions;
  for (const auto& p : text.positions) positions.push_back(p.pos);
  for (const auto& [kv, bound] : {std::pair(KvType::f32, 1e-3), std::pair(KvType::f16, 5e-3)}) {
    auto session = Session::create(*model, {.kv = kv});
    ASSERT_TRUE(session) << session.status().message();
    const auto logits = test::logits_at(*session, text.ids, positions);
    ASSERT_TRUE(logits) << logits.status().message();
    for (std::size_t i = 0; i < positions.size(); ++i)
      EXPECT_LE(worst_error(text.positions[i], (*logits)[i]), bound)
          << text.name << " position " << positions[i] << (kv == KvType::f32 ? " f32" : " f16")
          << " KV";
  }
}

INSTANTIATE_TEST_SUITE_P(Files, TinyLogits,
                         testing::ValuesIn(test::reference_texts("tiny/logits.json")),
                         [](const auto& tiny) {
                           std::string name = tiny.param.name;
                           std::replace_if(
                               name.begin(), name.end(), [](char c) { return !std::isalnum(c); },
                               '_');
                           return name;
                         });

}  // namespace
}  // namespace engine
