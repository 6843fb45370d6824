// The token that each row of the sampler draws among its k best logits: what engine/sampler.h does with
// top_k = k and no penalties.
//
//   u_i = floor(exp((l_i - l_0) / temperature) * 2^32), 0 where that is NaN
//   top-p: the shortest prefix by (u descending, id ascending) whose sum is at least
//     max(1, ceil(top_p * (u_0 + u_1 + …)))
//   min-p: u_i >= min_weight
//   draw: in ascending id, the first survivor whose running sum exceeds floor(bits * S / 2^64), S being
//     the sum of the survivors; the first candidate if there is none
//
// values, ids [n_t, k] as top_logits() leaves them, 1 <= k <= kMaxTopLogits; temperature > 0. Exact: all
// sums are of integers, below 2^39.
#pragma once

#include <cstdint>

#include "kernels/op/top_logits.h"

namespace engine::op {

struct Draw {
  float temperature;
  // top_p = top_p_mantissa * 2^-top_p_shift; mantissa < 2^24, shift >= 0.
  std::uint32_t top_p_mantissa;
  std::int32_t top_p_shift;
  std::uint64_t min_weight;
  std::uint64_t bits;  // uniform over 64 bits
};

struct Choice {
  std::int32_t token;
  std::uint32_t non_finite;  // that of top_logits()
};

struct SampleArgs {
  const float* values;              // [n_t, k]
  const std::int32_t* ids;          // [n_t, k]
  const std::uint32_t* non_finite;  // [n_t]
  const Draw* draws;                // [n_t]
  Choice* choices;                  // [n_t]
  int n_t, k;
};

// A weight from its real value, which is at most 2^32.
ENGINE_HD inline std::uint64_t integer_weight(float weight) {
  return weight >= 1.0f ? static_cast<std::uint64_t>(weight) : 0;
}

// ceil(top_p * sum), at least 1; sum < 2^39.
ENGINE_HD inline std::uint64_t top_p_mass(const Draw& draw, std::uint64_t sum) {
  const std::uint64_t product = draw.top_p_mantissa * sum;
  if (product == 0 || draw.top_p_shift >= 63) return 1;
  return (product + (std::uint64_t{1} << draw.top_p_shift) - 1) >> draw.top_p_shift;
}

// floor(a * b / 2^64).
ENGINE_HD inline std::uint64_t product_high(std::uint64_t a, std::uint64_t b) {
  constexpr std::uint64_t kLow = 0xFFFFFFFFu;
  const std::uint64_t low = (a & kLow) * (b & kLow), cross = (a >> 32) * (b & kLow) + (low >> 32);
  return (a >> 32) * (b >> 32) + (cross >> 32) + (((cross & kLow) + (a & kLow) * (b >> 32)) >> 32);
}

}  // namespace engine::op

namespace engine::ref {
void sample(const op::SampleArgs&);
}
namespace engine::cuda {
class Stream;
void sample(const op::SampleArgs&, Stream&);
}  // namespace engine::cuda
namespace engine::simt {
class Stream;
void sample(const op::SampleArgs&, Stream&);
}  // namespace engine::simt
