// ForwardOps on the CPU backend.
#pragma once

#include <span>

#include "engine/composed_ops.h"
#include "engine/ops.h"
#include "kernels/cpu/pool.h"

namespace engine {

class CpuOps : public ComposedOps<CpuOps> {
 public:
  explicit CpuOps(cpu::Pool& pool) : pool_(pool) {}
  void embedding(const op::EmbeddingArgs& a) { cpu::embedding(a, pool_); }
  void rmsnorm(const op::RmsNormArgs& a) { cpu::rmsnorm(a, pool_); }
  void quantize(const op::QuantizeArgs& a) { cpu::quantize(a, pool_); }
  void matmuls(std::span<const op::MatmulArgs> a) { cpu::matmuls(a, pool_); }
  void rope(const op::RopeArgs& a) { cpu::rope(a, pool_); }
  void kv_write(const op::KvWriteArgs& a) { cpu::kv_write(a, pool_); }
  void attention(const op::AttentionArgs& a) { cpu::attention(a, pool_); }
  void residual(const op::ResidualArgs& a) { cpu::residual(a, pool_); }
  void geglu(const op::GegluArgs& a) { cpu::geglu(a, pool_); }
  void logsumexp(const op::LogSumExpArgs& a) { cpu::logsumexp(a, pool_); }

 private:
  cpu::Pool& pool_;
};
static_assert(ForwardOps<CpuOps>);

}  // namespace engine
