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
  void rope(const op::RopeArgs& a) { ENGINE_DEVICE_NS::rope(a, stream); }
  void kv_write(const op::KvWriteArgs& a) { ENGINE_DEVICE_NS::kv_write(a, stream); }
  void attention(const op::AttentionArgs& a) { ENGINE_DEVICE_NS::attention(a, stream); }
  void residual(const op::ResidualArgs& a) { ENGINE_DEVICE_NS::residual(a, stream); }
  void geglu(const op::GegluArgs& a) { ENGINE_DEVICE_NS::geglu(a, stream); }
  void logsumexp(const op::LogSumExpArgs& a) { ENGINE_DEVICE_NS::logsumexp(a, stream); }
};
static_assert(ForwardOps<CudaOps>);

}  // namespace engine::ENGINE_DEVICE_NS
