// ForwardOps on the CUDA backend: every op is a launch in one stream. ENGINE_DEVICE_NS is cuda for a
// card, simt for the executor that runs the same kernels on the CPU.
#pragma once

#include <span>

#include "engine/device_runtime.h"
#include "engine/ops.h"

namespace engine::ENGINE_DEVICE_NS {

struct CudaOps {
  Stream& stream;
  void embedding(const op::EmbeddingArgs& a) { ENGINE_DEVICE_NS::embedding(a, stream); }
  void rmsnorm(const op::RmsNormArgs& a) { ENGINE_DEVICE_NS::rmsnorm(a, stream); }
  void quantize(const op::QuantizeArgs& a) { ENGINE_DEVICE_NS::quantize(a, stream); }
  void matmuls(std::span<const op::MatmulArgs> a) { ENGINE_DEVICE_NS::matmuls(a, stream); }
  void norm_quantize(const op::NormQuantizeArgs& a) { ENGINE_DEVICE_NS::norm_quantize(a, stream); }
  void residual_norm_quantize(const op::ResidualNormQuantizeArgs& a) {
    ENGINE_DEVICE_NS::residual_norm_quantize(a, stream);
  }
  void qk_norm_rope_kv(const op::QkNormRopeKvArgs& a) {
    ENGINE_DEVICE_NS::qk_norm_rope_kv(a, stream);
  }
  void attention(const op::AttentionArgs& a) { ENGINE_DEVICE_NS::attention(a, stream); }
  void residual(const op::ResidualArgs& a) { ENGINE_DEVICE_NS::residual(a, stream); }
  void ffn_gate_up(const op::FfnGateUpArgs& a) { ENGINE_DEVICE_NS::ffn_gate_up(a, stream); }
  void logsumexp(const op::LogSumExpArgs& a) { ENGINE_DEVICE_NS::logsumexp(a, stream); }
};
static_assert(ForwardOps<CudaOps>);

}  // namespace engine::ENGINE_DEVICE_NS
