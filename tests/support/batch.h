// What tests of decode_batch share.
#pragma once

#include <span>
#include <vector>

#include "engine/engine.h"

namespace engine::test {

// Appends n_steps tokens to a session for each prompt, all together on `model` and one by one on
// `alone`, and expects the same logits after every step.
void expect_batch_as_alone(const Model& model, const Model& alone,
                           std::span<const std::vector<Token>> prompts, int n_steps,
                           const SessionOptions& options);

}  // namespace engine::test
