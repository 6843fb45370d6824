// The k best of each row's logits, and whether the row holds a number that no model should give.
//
// Best first: by value descending, equal values (also +0 and -0) by id ascending; NaN ranks with
// minus infinity. Ids from n_ids on, which have no token, are not chosen. non_finite[t] is 1 if a logit
// of the row, of such an id too, is NaN or infinite, else 0.
//
// logits [n_t, n_vocab] f32; ids, values [n_t, k]; 1 <= k <= min(kMaxTopLogits, n_ids),
// n_ids <= n_vocab. Exact.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/op/simd.h"

namespace engine::op {

inline constexpr int kMaxTopLogits = 64;

// Of the logits of consecutive ids: the rank of the best one, 0 if none of the ids is below n_ids; and 1
// if one is NaN or infinite, else 0.
struct LogitSpan {
  std::uint64_t best;
  std::uint32_t non_finite;
};
inline constexpr int kLeastLogitSpan = 16;  // ids of a span, at least
constexpr int n_logit_spans(int n_vocab, int span) { return (n_vocab + span - 1) / span; }

struct TopLogitsArgs {
  const float* logits;        // [n_t, n_vocab]
  std::int32_t* ids;          // [n_t, k]
  float* values;              // [n_t, k], as in logits
  std::uint32_t* non_finite;  // [n_t]
  int n_t, n_vocab, n_ids, k;
  // Device backends only.
  LogitSpan* spans = nullptr;  // [n_t, n_logit_spans(n_vocab, kLeastLogitSpan)]
  int span = 0;  // ids of each that head_logits() has left there; 0: the op finds them itself
};

// Ranks logits: greater is better, no two ids have the same. Never 0.
ENGINE_HD inline std::uint64_t logit_rank(float logit, int id) {
  const auto bits = static_cast<std::uint32_t>(Scalar::bits(logit));
  const bool is_nan = (bits & 0x7FFFFFFFu) > 0x7F800000u, is_negative = bits >> 31 != 0;
  // For floats without sign, integer order is float order; for those with one it is reversed.
  const std::uint32_t ordered = is_nan                       ? 0x007FFFFFu  // as minus infinity
                                : (bits & 0x7FFFFFFFu) == 0u ? 0x80000000u
                                : is_negative                ? ~bits
                                                             : bits | 0x80000000u;
  return std::uint64_t{ordered} << 32 | (0xFFFFFFFFu - static_cast<std::uint32_t>(id));
}
ENGINE_HD inline int id_of_rank(std::uint64_t rank) {
  return static_cast<int>(0xFFFFFFFFu - static_cast<std::uint32_t>(rank));
}

// The logit, but NaN and the sign of zero are lost.
ENGINE_HD inline float logit_of_rank(std::uint64_t rank) {
  const auto ordered = static_cast<std::uint32_t>(rank >> 32);
  return Scalar::from_bits(
      static_cast<std::int32_t>(ordered >> 31 != 0 ? ordered & 0x7FFFFFFFu : ~ordered));
}

ENGINE_HD inline bool is_bad_logit(float logit) {
  return (static_cast<std::uint32_t>(Scalar::bits(logit)) & 0x7F800000u) == 0x7F800000u;
}

}  // namespace engine::op

namespace engine::ref {
void top_logits(const op::TopLogitsArgs&);
}
namespace engine::cuda {
class Stream;
void top_logits(const op::TopLogitsArgs&, Stream&);
}  // namespace engine::cuda
namespace engine::simt {
class Stream;
void top_logits(const op::TopLogitsArgs&, Stream&);
}  // namespace engine::simt
