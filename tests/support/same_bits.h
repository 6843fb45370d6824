// What tests of bit-for-bit equality share.
#pragma once

#include <filesystem>
#include <span>
#include <vector>

#include "engine/engine.h"
#include "kernels/cpu/select.h"

namespace engine::test {

// Fails the test unless the file loads and its backend runs at `isa`.
Model load_at(const std::filesystem::path& file, cpu::Isa isa, int n_threads);

// The logits behind the last of `tokens` in a session of their own.
std::vector<float> logits_after(const Model& model, std::span<const Token> tokens,
                                const SessionOptions& options);

bool same_bits(std::span<const float> a, std::span<const float> b);

}  // namespace engine::test
