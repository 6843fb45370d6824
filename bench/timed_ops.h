// The simple ops of a backend with a stopwatch around each: satisfies ForwardOps, so neither the model nor
// the kernels know of it.
#pragma once

#include <map>
#include <span>
#include <string>

#include "bench/op_bytes.h"
#include "bench/stage_log.h"
#include "engine/composed_ops.h"
#include "engine/ops.h"
#include "engine/weights.h"

namespace engine::bench {

// Whether matmuls that share a parallel region are timed as they run, or run one after the other to
// be timed each by itself.
enum class Matmuls { together, each };

template <ForwardOps Ops>
class TimedOps : public ComposedOps<TimedOps<Ops>> {
 public:
  // All must outlive the object. Matmuls are named after the role of their matrix in `weights`.
  TimedOps(Ops& ops, const Weights& weights, Matmuls matmuls, StageLog& log)
      : ops_(ops), matmuls_(matmuls), log_(log) {
    roles_[weights.output.data] = "head";
    for (const LayerWeights& l : weights.layers) {
      roles_[l.attn_q.data] = "attn_q";
      roles_[l.attn_k.data] = "attn_k";
      roles_[l.attn_v.data] = "attn_v";
      roles_[l.attn_output.data] = "attn_output";
      roles_[l.ffn_gate.data] = "ffn_gate";
      roles_[l.ffn_up.data] = "ffn_up";
      roles_[l.ffn_down.data] = "ffn_down";
    }
  }

  void embedding(const op::EmbeddingArgs& a) {
    log_.time("embedding", bytes_of(a), [&] { ops_.embedding(a); });
  }
  void rmsnorm(const op::RmsNormArgs& a) {
    log_.time("rmsnorm", bytes_of(a), [&] { ops_.rmsnorm(a); });
  }
  void quantize(const op::QuantizeArgs& a) {
    log_.time("quantize", bytes_of(a), [&] { ops_.quantize(a); });
  }
  void matmuls(std::span<const op::MatmulArgs> all) {
    if (matmuls_ == Matmuls::together) return time_matmuls(all);
    for (const op::MatmulArgs& a : all) time_matmuls({&a, 1});
  }
  void rope(const op::RopeArgs& a) {
    log_.time("rope", bytes_of(a), [&] { ops_.rope(a); });
  }
  void kv_write(const op::KvWriteArgs& a) {
    log_.time("kv_write", bytes_of(a), [&] { ops_.kv_write(a); });
  }
  void attention(const op::AttentionArgs& a) {
    log_.time("attention", bytes_of(a), [&] { ops_.attention(a); });
  }
  void residual(const op::ResidualArgs& a) {
    log_.time("residual", bytes_of(a), [&] { ops_.residual(a); });
  }
  void geglu(const op::GegluArgs& a) {
    log_.time("geglu", bytes_of(a), [&] { ops_.geglu(a); });
  }
  void logsumexp(const op::LogSumExpArgs& a) {
    log_.time("logsumexp", bytes_of(a), [&] { ops_.logsumexp(a); });
  }

 private:
  void time_matmuls(std::span<const op::MatmulArgs> all) {
    std::string name = "matmul";
    double bytes = 0;
    for (const op::MatmulArgs& a : all) {
      name += ' ' + roles_.at(a.w.data);
      bytes += bytes_of(a);
    }
    log_.time(name, bytes, [&] { ops_.matmuls(all); });
  }

  Ops& ops_;
  Matmuls matmuls_;
  StageLog& log_;
  std::map<const std::byte*, std::string> roles_;
};

}  // namespace engine::bench
