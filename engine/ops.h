// What a backend must offer for the forward pass: every op of kernels/op under its own name.
#pragma once

#include <span>

#include "kernels/op/attention.h"
#include "kernels/op/embedding.h"
#include "kernels/op/geglu.h"
#include "kernels/op/kv_write.h"
#include "kernels/op/logsumexp.h"
#include "kernels/op/matmul.h"
#include "kernels/op/quantize.h"
#include "kernels/op/residual.h"
#include "kernels/op/rmsnorm.h"
#include "kernels/op/rope.h"

namespace engine {

template <class Ops>
concept ForwardOps = requires(Ops& ops, const op::EmbeddingArgs& embedding,
                              const op::RmsNormArgs& rmsnorm, const op::QuantizeArgs& quantize,
                              std::span<const op::MatmulArgs> matmuls, const op::RopeArgs& rope,
                              const op::KvWriteArgs& kv_write, const op::AttentionArgs& attention,
                              const op::ResidualArgs& residual, const op::GegluArgs& geglu,
                              const op::LogSumExpArgs& logsumexp) {
  ops.embedding(embedding);
  ops.rmsnorm(rmsnorm);
  ops.quantize(quantize);
  ops.matmuls(matmuls);
  ops.rope(rope);
  ops.kv_write(kv_write);
  ops.attention(attention);
  ops.residual(residual);
  ops.geglu(geglu);
  ops.logsumexp(logsumexp);
};

}  // namespace engine
