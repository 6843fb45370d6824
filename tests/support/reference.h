// The independent reference's figures (tests/golden, provenance in its README) and how close we
// must be.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/engine.h"

namespace engine::test {

struct ReferencePosition {
  int pos;
  double logsumexp;
  std::vector<std::pair<Token, double>> top;  // most likely first
  std::vector<double> first16;                // logits of ids 0..15; tiny models only
};

struct ReferenceText {
  std::string name;        // of the text, or the file of the model
  std::vector<Token> ids;  // BOS first
  double mean_nll = 0;     // of ids[1:]; real model only
  std::vector<ReferencePosition> positions;
};

struct ReferenceAnswer {
  std::string prompt;
  std::vector<Token> prompt_ids, ids;
  std::vector<double> margin;  // between the first and second logit at every step
};

// "logits.json" or "tiny/logits.json" of tests/golden.
std::vector<ReferenceText> reference_texts(std::string_view file);
std::vector<ReferenceAnswer> reference_answers();

double logsumexp(std::span<const float> logits);

// One half of the sum of p (ln p' - ln p)^2 over the reference's top ids: the second-order form of
// the KL divergence, which truncation to the top does not spoil.
double divergence(const ReferencePosition& reference, std::span<const float> logits);

// Logits of a token sequence at ascending positions, one vector a position.
Result<std::vector<std::vector<float>>> logits_at(Session& session, std::span<const Token> ids,
                                                  std::span<const int> positions);

}  // namespace engine::test
