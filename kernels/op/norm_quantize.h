// y = quantize(rmsnorm(x)): the input of a quantised matmul, without the floats in between.
//
// The ops of rmsnorm.h and quantize.h one after the other, and their bits. x [n_t, n_i] f32, n_i a
// multiple of 32; w [n_i] f32; outputs as in QuantizedRows. Device backends only.
#pragma once

#include "kernels/op/quantize.h"

namespace engine::op {

struct NormQuantizeArgs {
  const float* x;  // [n_t, n_i]
  const float* w;  // [n_i]
  QuantizedRows y;
  int n_t, n_i;
  float eps;
};

}  // namespace engine::op

namespace engine::cuda {
class Stream;
void norm_quantize(const op::NormQuantizeArgs&, Stream&);
}  // namespace engine::cuda
namespace engine::simt {
class Stream;
void norm_quantize(const op::NormQuantizeArgs&, Stream&);
}  // namespace engine::simt
