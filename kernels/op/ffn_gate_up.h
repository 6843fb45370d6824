// y = geglu(gate x, up x): the first half of the feed-forward network without the floats in between.
//
// The ops of matmul.h and geglu.h one after the other, and their bits. Both matrices have the same n_out, n_in
// and activations; gate.y and up.y [n_t, n_out] are scratch, left in any state; y [n_t, n_out] overlaps
// none of them. Device backends only.
#pragma once

#include "kernels/op/matmul.h"

namespace engine::op {

struct FfnGateUpArgs {
  MatmulArgs gate, up;
  float* y;  // [n_t, n_out]
};

}  // namespace engine::op

namespace engine::cuda {
class Stream;
void ffn_gate_up(const op::FfnGateUpArgs&, Stream&);
}  // namespace engine::cuda
namespace engine::simt {
class Stream;
void ffn_gate_up(const op::FfnGateUpArgs&, Stream&);
}  // namespace engine::simt
