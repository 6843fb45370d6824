// What a backend must offer for the forward pass: ops of kernels/op under their own names.
#pragma once

#include <span>

#include "kernels/op/attention.h"
#include "kernels/op/embedding.h"
#include "kernels/op/ffn_gate_up.h"
#include "kernels/op/logsumexp.h"
#include "kernels/op/matmul.h"
#include "kernels/op/norm_quantize.h"
#include "kernels/op/qk_norm_rope_kv.h"
#include "kernels/op/quantize.h"
#include "kernels/op/residual.h"
#include "kernels/op/residual_norm_quantize.h"
#include "kernels/op/rmsnorm.h"

namespace engine {

template <class Ops>
concept ForwardOps = requires(Ops& ops, const op::EmbeddingArgs& embedding,
                              const op::RmsNormArgs& rmsnorm, const op::QuantizeArgs& quantize,
                              const op::NormQuantizeArgs& norm_quantize,
                              std::span<const op::MatmulArgs> matmuls,
                              const op::QkNormRopeKvArgs& qk_norm_rope_kv,
                              const op::AttentionArgs& attention, const op::ResidualArgs& residual,
                              const op::ResidualNormQuantizeArgs& residual_norm_quantize,
                              const op::FfnGateUpArgs& ffn_gate_up,
                              const op::LogSumExpArgs& logsumexp) {
  ops.embedding(embedding);
  ops.rmsnorm(rmsnorm);
  ops.quantize(quantize);
  ops.norm_quantize(norm_quantize);
  ops.matmuls(matmuls);
  ops.qk_norm_rope_kv(qk_norm_rope_kv);
  ops.attention(attention);
  ops.residual(residual);
  ops.residual_norm_quantize(residual_norm_quantize);
  ops.ffn_gate_up(ffn_gate_up);
  ops.logsumexp(logsumexp);
};

}  // namespace engine
