// x += rmsnorm(y; post_w), then q = quantize(rmsnorm(x; w)): what lies between two projections.
//
// The ops of rmsnorm.h, residual.h, rmsnorm.h and quantize.h one after the other, and their bits.
// x, y [n_t, n_i] f32, no overlap, n_i a multiple of 32; post_w, w [n_i] f32; outputs as in
// QuantizedRows. Device backends only.
#pragma once

#include "kernels/op/quantize.h"

namespace engine::op {

struct ResidualNormQuantizeArgs {
  float* x;             // [n_t, n_i]
  const float* y;       // [n_t, n_i]
  const float* post_w;  // [n_i]
  const float* w;       // [n_i]
  QuantizedRows q;
  int n_t, n_i;
  float eps;
};

}  // namespace engine::op

namespace engine::cuda {
class Stream;
void residual_norm_quantize(const op::ResidualNormQuantizeArgs&, Stream&);
}  // namespace engine::cuda
namespace engine::simt {
class Stream;
void residual_norm_quantize(const op::ResidualNormQuantizeArgs&, Stream&);
}  // namespace engine::simt
