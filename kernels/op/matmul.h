// y[t,o] = sum_i w[o,i] * x[t,i]
//
// Quantised w: x is QuantizedRows. Term t of a block of 32 inputs:
//   I_j = sum q_w*q_x and X_j = sum q_x are exact int32 per sub-block j (16 inputs for Q6_K, Q3_K,
//   Q2_K, else 32); s_j, n_j the integer sub-scale and sub-minimum; D = d*dx.
//   a = f32(I_0)*s_0; with two sub-blocks a = fma(f32(I_1), s_1, a); e likewise from X and n
//   no minimum           t = a*D
//   minimum subtracted   t = fma(a, D, -(e*(dmin*dx)))
//   minimum added        t = fma(a, D, f32(X_0)*(m*dx))
// Float w (F32, F16, BF16): x is fp32. Per segment of 256 inputs, lane l of 32:
//   p = +0; p = fma(w[32j+l], x[32j+l], p), j ascending; halving tree.
// Row: the terms of a 256-aligned segment by op::SegmentTree; y = +0; y += segment, ascending.
//
// w [n_out, n_in]; x [n_t, n_in]; y [n_t, n_out] f32, no overlap with x.
// Tolerance against ref (double, same quantised x): 2^-24 * (n_in/32 + 12) * sum_i |w x|: one
// rounding per level of the sum plus those of a term, worst case.
#pragma once

#include <span>

#include "kernels/op/matrix.h"
#include "kernels/op/quantize.h"

namespace engine::op {

struct MatmulArgs {
  Matrix w;
  const float* x;    // [n_t, n_in]; read for float w only
  QuantizedRows xq;  // of n_in inputs; read for quantised w only
  float* y;          // [n_t, n_out]
  int n_t;
};

}  // namespace engine::op

namespace engine::ref {
void matmul(const op::MatmulArgs&);
}  // namespace engine::ref
namespace engine::cpu {
class Pool;
void matmul(const op::MatmulArgs&, Pool&);
// Each as if by itself, all in one parallel loop. No output overlaps another's input or output.
void matmuls(std::span<const op::MatmulArgs>, Pool&);
}  // namespace engine::cpu
namespace engine::cuda {
class Stream;
void matmul(const op::MatmulArgs&, Stream&);
// Each as if by itself. No output overlaps another's input or output.
void matmuls(std::span<const op::MatmulArgs>, Stream&);
}  // namespace engine::cuda
namespace engine::simt {
class Stream;
void matmul(const op::MatmulArgs&, Stream&);
// Each as if by itself. No output overlaps another's input or output.
void matmuls(std::span<const op::MatmulArgs>, Stream&);
}  // namespace engine::simt
