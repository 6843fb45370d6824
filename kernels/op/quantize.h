// 16-bit activations for quantised matmuls.
//
// Per block of 32: scale = amax / 32639; q = rne(x / scale) by IEEE division, so |q| <= 32639 =
// 127*256 + 127 and q = 256*hi + lo with both halves signed bytes. q = 0 where the scale is below
// 1e-30 / 32639 (amax below 1e-30): the scale is then 0. A block holding NaN or infinity (tested on
// bits) has scale NaN and q = 0, so that it reaches the logits. sum16 holds the integer sum of q
// per 16; product16 the sum of the products of neighbours, q0*q1 + q2*q3 + ..., per 16, modulo 2^32,
// for kernels that multiply sums (kernels/cpu/matmul_tile.h).
//
// x [n_t, n_i] f32, n_i a multiple of 32; outputs as in QuantizedRows. Exact: no tolerance between
// backends; against ref the only freedom is none (ref does the same divisions).
#pragma once

#include <cstdint>

#include "kernels/op/order.h"

namespace engine::op {

inline constexpr float kQuantMax = 32639.0f;
inline constexpr float kQuantMinAmax = 1e-30f;
inline constexpr int kSubSum = 16;  // elements of one integer sum

// Where element i of a row is stored. Within every four, order 0 2 1 3: the 32-bit words (x0,x2)
// and (x1,x3) then multiply the even and the odd bytes of four adjacent weights without any
// shuffle.
ENGINE_HD constexpr int quad_position(int i) { return (i & ~3) | ((i & 1) << 1) | ((i >> 1) & 1); }

// Quantised activations of n_t rows.
struct QuantizedRows {
  std::int16_t* q;          // [n_t, n_i], element i of a row at quad_position(i)
  float* scale;             // [n_t, n_i/32]
  std::int32_t* sum16;      // [n_t, n_i/16]
  std::int32_t* product16;  // [n_t, n_i/16]
};

struct QuantizeArgs {
  const float* x;  // [n_t, n_i]
  QuantizedRows y;
  int n_t, n_i;
};

}  // namespace engine::op

namespace engine::ref {
void quantize(const op::QuantizeArgs&);
}
namespace engine::cpu {
class Pool;
void quantize(const op::QuantizeArgs&, Pool&);
}  // namespace engine::cpu
namespace engine::cuda {
class Stream;
void quantize(const op::QuantizeArgs&, Stream&);
}  // namespace engine::cuda
namespace engine::simt {
class Stream;
void quantize(const op::QuantizeArgs&, Stream&);
}  // namespace engine::simt
