// Memory that an op has to move: every byte of its inputs and outputs once, in the form in which it
// is stored.
#pragma once

#include "engine/composed_ops.h"
#include "engine/ops.h"
#include "kernels/op/kv_write.h"
#include "kernels/op/rope.h"

namespace engine::bench {

double bytes_of(const op::EmbeddingArgs& a);
double bytes_of(const op::RmsNormArgs& a);
double bytes_of(const op::QuantizeArgs& a);
// Those of one matmul; an input that several share counts for each.
double bytes_of(const op::MatmulArgs& a);
double bytes_of(const op::RopeArgs& a);
double bytes_of(const op::KvWriteArgs& a);
// The keys and values that any of the rows sees, taking the rows to be of one sequence.
double bytes_of(const op::AttentionArgs& a);
double bytes_of(const op::ResidualArgs& a);
double bytes_of(const op::GegluArgs& a);
double bytes_of(const op::LogSumExpArgs& a);

}  // namespace engine::bench
