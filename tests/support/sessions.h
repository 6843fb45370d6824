// Sessions of a tiny model, as tests set them up and look at them.
#pragma once

#include <span>
#include <vector>

#include "engine/engine.h"

namespace engine::test {

// BOS and n - 1 tokens of a tiny model that are no end of anything; other ones for another stride.
std::vector<Token> some_tokens(int n, int stride = 7919);

// A session that holds `tokens`. Fails the test if they are refused.
Session session_of(const Model& model, std::span<const Token> tokens,
                   const SessionOptions& options = {});

// The logits behind the session's last token. Fails the test if there are none.
std::vector<float> logits_of(Session& session);

}  // namespace engine::test
