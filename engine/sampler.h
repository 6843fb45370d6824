// Choosing a token from logits: penalties, top-k, temperature, top-p, min-p, one seeded draw; no
// full sort.
//
// Weights are integers, u_i = floor(exp((l_i - M)/T) * 2^32), so every sum is exact in any order
// and every backend draws the same token. top-p: the shortest prefix by (u descending, id
// ascending) with sum >= ceil(p * S). min-p: u_i >= floor(min_p * 2^32). Draw: 64 bits R of Philox
// (key seed, counter index); the first survivor in ascending id whose running sum exceeds floor(R *
// S / 2^64).
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "engine/engine.h"
#include "kernels/cpu/pool.h"
#include "kernels/op/sample.h"

namespace engine {

// invalid_argument naming the option that is out of range.
Status check(const SamplerOptions& options);

// logits [n_vocab]: NaN or +infinity is non_finite; minus infinity marks ids that must not be
// chosen. history: the tokens before, for the penalties. index: the position being filled. Runs on the
// pool: call it within a job.
Result<Token> sample(std::span<const float> logits, std::span<const Token> history,
                     const SamplerOptions& options, std::uint64_t index, cpu::Pool& pool);

// What a backend that samples itself is told (op/sample.h).
struct Candidates {
  int k;
  op::Draw draw;
};
// The same choice as sample()'s, of options that check() accepts; nothing if it may need more than the
// `most` best candidates, penalties or edits.
std::optional<Candidates> candidates_of(const SamplerOptions& options, std::uint64_t index,
                                        int most);
// The token drawn among the k best logits, best first. Call it within a job of the pool.
Token draw_among(std::span<const std::int32_t> ids, std::span<const float> values,
                 const op::Draw& draw, cpu::Pool& pool);

}  // namespace engine
