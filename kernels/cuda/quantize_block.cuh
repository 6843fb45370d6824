// Quantisation of one block of 32 by a warp (op/quantize.h), for the ops that contain it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "kernels/cuda/block.cuh"
#include "kernels/op/quantize.h"

namespace engine::ENGINE_DEVICE_NS {

// Lane i holds element i of block b, counted through all rows.
__device__ __forceinline__ void quantize_block(float x, const op::QuantizedRows& y,
                                               std::ptrdiff_t b) {
  using S = op::Scalar;
  const int lane = lane_index();
  // 1 scale. For floats without sign, integer order is float order, and NaN and infinity are the
  // values from 0x7F800000 up.
  constexpr int kInfinityBits = 0x7F800000;
  int amax = S::bits(S::abs(x));
  for (int h = kWarp / 2; h > 0; h /= 2) amax = max(amax, __shfl_xor_sync(kAllLanes, amax, h));
  const bool finite = amax < kInfinityBits;
  const bool nonzero = finite && !(S::from_bits(amax) < op::kQuantMinAmax);
  const float step = nonzero  ? S::from_bits(amax) / op::kQuantMax
                     : finite ? 0.0f
                              : std::numeric_limits<float>::quiet_NaN();
  // 2 quotients: adding 1.5 * 2^23 rounds to an integer, which the sum's low bits hold
  constexpr float kRound = 0x1.8p+23f;
  const int q = nonzero ? S::subi(S::bits(x / step + kRound), S::bits(kRound)) : 0;
  // 3 store, with the sums
  store_global(y.q + b * op::kBlock + op::quad_position(lane), static_cast<std::int16_t>(q));
  const unsigned neighbour = static_cast<unsigned>(__shfl_xor_sync(kAllLanes, q, 1));
  unsigned product = lane % 2 == 0 ? static_cast<unsigned>(q) * neighbour : 0u;
  int sum = q;
  for (int h = op::kSubSum / 2; h > 0; h /= 2) {
    sum += __shfl_xor_sync(kAllLanes, sum, h);
    product += __shfl_xor_sync(kAllLanes, product, h);
  }
  if (lane == 0) store_global(y.scale + b, step);
  if (lane % op::kSubSum == 0) {
    const std::ptrdiff_t at = 2 * b + lane / op::kSubSum;
    store_global(y.sum16 + at, sum);
    store_global(y.product16 + at, static_cast<std::int32_t>(product));
  }
}

}  // namespace engine::ENGINE_DEVICE_NS
