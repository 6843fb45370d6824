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
  return S::reduce_max(m);
}

// The products of neighbours, once for each pair, among the integers v of elements i, i+1, …;
// `before` holds those of the elements before them.
template <class S>
typename S::I neighbour_products(int i, typename S::I before, typename S::I v) {
  if constexpr (S::kLanes == 1)
    return i % 2 == 1 ? before * v : 0;
  else
    return S::neighbour_products(v);
}

template <class S>
void quantize_block(const float* x, std::int16_t* q, float* scale, std::int32_t* sum16,
                    std::int32_t* product16) {
  // 1 scale
  constexpr std::int32_t kInfinityBits = 0x7F800000;
  const std::int32_t amax = amax_bits<S>(x);
  const bool finite = amax < kInfinityBits;
  const float amax_value = std::bit_cast<float>(amax);
  const bool nonzero = finite && !(amax_value < op::kQuantMinAmax);
  const float step = nonzero  ? amax_value / op::kQuantMax
                     : finite ? 0.0f
                              : std::numeric_limits<float>::quiet_NaN();
  *scale = step;
  // 2 quotients: adding 1.5 * 2^23 rounds to an integer, which the sum's low bits hold
  constexpr float kRound = 0x1.8p+23f;
  const auto quotients = [&](int i) {
    if (!nonzero) return S::seti(0);
    const typename S::F v = S::add(S::div(S::load(x + i), S::set(step)), S::set(kRound));
    return S::subi(S::bits(v), S::bits(S::set(kRound)));
  };
  // 3 store, with the sums
  for (int half = 0; half < op::kBlock; half += op::kSubSum) {
    typename S::I sums = S::seti(0), products = S::seti(0), before = S::seti(0);
    for (int i = half; i < half + op::kSubSum; i += S::kLanes) {
      const typename S::I integers = quotients(i);
      S::store_quads(q, i, integers);
      sums = S::addi(sums, integers);
      products = S::addi(products, neighbour_products<S>(i, before, integers));
      before = integers;
    }
    sum16[half / op::kSubSum] = S::reduce_add(sums);
    product16[half / op::kSubSum] = S::reduce_add(products);
  }
}

template <class S>
void quantize_rows(const op::QuantizeArgs& a, int begin, int end) {
  const std::ptrdiff_t n_blocks = a.n_i / op::kBlock;
  for (std::ptrdiff_t b = begin * n_blocks; b < end * n_blocks; ++b)
    quantize_block<S>(a.x + b * op::kBlock, a.y.q + b * op::kBlock, a.y.scale + b,
                      a.y.sum16 + 2 * b, a.y.product16 + 2 * b);
}

}  // namespace engine::cpu
