#include "tests/support/reference.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/support/model_file.h"

namespace engine::test {
namespace {

nlohmann::json read_json(std::string_view file) {
  std::ifstream in(golden_file(file));
  return nlohmann::json::parse(in);
}

}  // namespace

std::vector<ReferenceText> reference_texts(std::string_view file) {
  std::vector<ReferenceText> texts;
  for (const nlohmann::json& from : read_json(file)) {
    ReferenceText text;
    text.name = from.contains("file") ? from["file"] : from["name"];
    text.ids = from["ids"].get<std::vector<Token>>();
    text.mean_nll = from.value("mean_nll", 0.0);
    for (const nlohmann::json& p : from["positions"])
      text.positions.push_back({p["pos"], p["logsumexp"],
                                p["top"].get<std::vector<std::pair<Token, double>>>(),
                                p.value("logits_first16", std::vector<double>())});
    texts.push_back(std::move(text));
  }
  return texts;
}

std::vector<ReferenceAnswer> reference_answers() {
  std::vector<ReferenceAnswer> answers;
  for (const nlohmann::json& from : read_json("greedy.json"))
    answers.push_back({from["prompt"], from["prompt_ids"], from["ids"], from["margin"]});
  return answers;
}

double logsumexp(std::span<const float> logits) {
  const double m = *std::max_element(logits.begin(), logits.end());
  double z = 0;
  for (const float logit : logits) z += std::exp(logit - m);
  return m + std::log(z);
}

double divergence(const ReferencePosition& reference, std::span<const float> logits) {
  const double lse = logsumexp(logits);
  double sum = 0;
  for (const auto& [id, logit] : reference.top) {
    const double expected = logit - reference.logsumexp;
    const double delta = logits[static_cast<std::size_t>(id)] - lse - expected;
    sum += std::exp(expected) * delta * delta;
  }
  return sum / 2;
}

Result<std::vector<std::vector<float>>> logits_at(Session& session, std::span<const Token> ids,
                                                  std::span<const int> positions) {
  std::vector<std::vector<float>> result;
  for (const int pos : positions) {
    const auto held = static_cast<std::size_t>(session.n_past());
    ENGINE_TRY(session.decode(ids.subspan(held, static_cast<std::size_t>(pos) + 1 - held)));
    ENGINE_ASSIGN(const std::span<const float> logits, session.logits());
    result.emplace_back(logits.begin(), logits.end());
  }
  return result;
}

}  // namespace engine::test
