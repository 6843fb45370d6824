// vector: the 32 elements of a block; a row is one work item.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "kernels/cpu/lanes.h"
#include "kernels/op/quantize.h"

namespace engine::cpu {

// The largest magnitude of a block as bits: for floats without sign, integer order is float order,
// and NaN and infinity are the values from 0x7F800000 up.
template <class S>
std::int32_t amax_bits(const float* x) {
  typename S::I m = S::seti(0);
  for (int i = 0; i < op::kBlock; i += S::kLanes) m = S::maxi(m, S::bits(S::abs(S::load(x + i))));
  std::int32_t lanes[S::kLanes];
  S::storei(lanes, m);
  std::int32_t bits = 0;
  for (std::int32_t lane : lanes) bits = lane > bits ? lane : bits;
  return bits;
}

template <class S>
void quantize_block(const float* x, std::int16_t* q, float* scale, std::int32_t* sum16) {
  // 1 scale
  constexpr std::int32_t kInfinityBits = 0x7F800000;
  const std::int32_t amax = amax_bits<S>(x);
  const bool finite = amax < kInfinityBits;
  const float amax_value = std::bit_cast<float>(amax);
  const bool nonzero = finite && !(amax_value < op::kQuantMinAmax);
  *scale = nonzero  ? amax_value / op::kQuantMax
           : finite ? 0.0f
                    : std::numeric_limits<float>::quiet_NaN();
  // 2 quotients: adding 1.5 * 2^23 rounds to an integer, which the sum's low bits hold
  constexpr float kRound = 0x1.8p+23f;
  alignas(64) std::int32_t integers[op::kBlock] = {};
  if (nonzero)
    for (int i = 0; i < op::kBlock; i += S::kLanes) {
      const typename S::F v = S::add(S::div(S::load(x + i), S::set(*scale)), S::set(kRound));
      S::storei(integers + i, S::subi(S::bits(v), S::bits(S::set(kRound))));
    }
  // 3 store, with the sums
  for (int half = 0; half < op::kBlock; half += op::kSubSum) {
    std::int32_t sum = 0;
    for (int i = half; i < half + op::kSubSum; ++i) {
      sum += integers[i];
      q[op::quad_position(i)] = static_cast<std::int16_t>(integers[i]);
    }
    sum16[half / op::kSubSum] = sum;
  }
}

template <class S>
void quantize_rows(const op::QuantizeArgs& a, int begin, int end) {
  const std::ptrdiff_t n_blocks = a.n_i / op::kBlock;
  for (std::ptrdiff_t b = begin * n_blocks; b < end * n_blocks; ++b)
    quantize_block<S>(a.x + b * op::kBlock, a.y.q + b * op::kBlock, a.y.scale + b,
                      a.y.sum16 + 2 * b);
}

}  // namespace engine::cpu
