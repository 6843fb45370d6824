// What tests of decode_batch share.
#pragma once

#include <span>
#include <vector>

#include "tests/support/same_bits.h"

namespace engine::test {

// BOS and n - 1 ordinary tokens of a tiny model, other ones for another stride.
std::vector<Token> some_tokens(int n, int stride = 7919);

// Appends n_steps tokens to a session for each prompt, all together on `model` and one by one on
// `alone`, and expects the same logits after every step.
void expect_batch_as_alone(const Model& model, const Model& alone,
                           std::span<const std::vector<Token>> prompts, int n_steps,
                           const SessionOptions& options);

}  // namespace engine::test
