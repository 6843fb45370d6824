// ForwardOps on the CPU backend.
#pragma once

#include <span>

#include "engine/ops.h"
#include "kernels/cpu/pool.h"

namespace engine {

struct CpuOps {
  cpu::Pool& pool;
  void embedding(const op::EmbeddingArgs& a) { cpu::embedding(a, pool); }
  void rmsnorm(const op::RmsNormArgs& a) { cpu::rmsnorm(a, pool); }
  void quantize(const op::QuantizeArgs& a) { cpu::quantize(a, pool); }
  void matmuls(std::span<const op::MatmulArgs> a) { cpu::matmuls(a, pool); }
  void rope(const op::RopeArgs& a) { cpu::rope(a, pool); }
  void kv_write(const op::KvWriteArgs& a) { cpu::kv_write(a, pool); }
  void attention(const op::AttentionArgs& a) { cpu::attention(a, pool); }
  void residual(const op::ResidualArgs& a) { cpu::residual(a, pool); }
  void geglu(const op::GegluArgs& a) { cpu::geglu(a, pool); }
  void logsumexp(const op::LogSumExpArgs& a) { cpu::logsumexp(a, pool); }
};
static_assert(ForwardOps<CpuOps>);

}  // namespace engine
