// The logits of one row, and the best of each span of them for top_logits(): matmul() and the first part of
// top_logits() in one, and their bits.
//
// matmul: n_t = 1; y [n_out] are the logits. spans [n_logit_spans(n_out, kLeastLogitSpan)]. Returns the ids of
// a span, TopLogitsArgs::span; 0 if no span was written, because no kernel for the matrix does. Device
// backends only.
#pragma once

#include "kernels/op/matmul.h"
#include "kernels/op/top_logits.h"

namespace engine::op {

struct HeadLogitsArgs {
  MatmulArgs matmul;
  int n_ids;
  LogitSpan* spans;
};

}  // namespace engine::op

namespace engine::cuda {
class Stream;
int head_logits(const op::HeadLogitsArgs&, Stream&);
}  // namespace engine::cuda
namespace engine::simt {
class Stream;
int head_logits(const op::HeadLogitsArgs&, Stream&);
}  // namespace engine::simt
