// The fused ops as chains of simple ones, for backends that have no kernels for them. The same bits.
#pragma once

#include "kernels/op/ffn_gate_up.h"
#include "kernels/op/geglu.h"
#include "kernels/op/kv_write.h"
#include "kernels/op/norm_quantize.h"
#include "kernels/op/qk_norm_rope_kv.h"
#include "kernels/op/residual.h"
#include "kernels/op/residual_norm_quantize.h"
#include "kernels/op/rmsnorm.h"
#include "kernels/op/rope.h"

namespace engine {

// Ops, which derives from this, has the simple ones.
template <class Ops>
class ComposedOps {
 public:
  void norm_quantize(const op::NormQuantizeArgs& a) {
    ops().rmsnorm({a.x, a.w, a.normed, a.n_t, a.n_i, a.eps});
    ops().quantize({a.normed, a.y, a.n_t, a.n_i});
  }
  void residual_norm_quantize(const op::ResidualNormQuantizeArgs& a) {
    const auto n = static_cast<std::size_t>(a.n_t) * static_cast<std::size_t>(a.n_i);
    ops().rmsnorm({a.y, a.post_w, a.normed, a.n_t, a.n_i, a.eps});
    ops().residual({a.x, a.normed, n});
    norm_quantize({a.x, a.w, a.normed, a.q, a.n_t, a.n_i, a.eps});
  }
  void qk_norm_rope_kv(const op::QkNormRopeKvArgs& a) {
    const int n_kv = a.shape.n_kv, d = a.shape.d;
    ops().rmsnorm({a.q, a.q_w, a.q, a.n_t * a.n_h, d, a.eps});
    ops().rmsnorm({a.k, a.k_w, a.k, a.n_t * n_kv, d, a.eps});
    ops().rope({a.q, a.cos, a.sin, a.n_t, a.n_h, d, a.scale});
    ops().rope({a.k, a.cos, a.sin, a.n_t, n_kv, d, 1.0f});
    ops().kv_write({a.k, a.v, a.shape, a.pages, a.rows, a.n_t});
  }
  void ffn_gate_up(const op::FfnGateUpArgs& a) {
    const op::MatmulArgs matmuls[] = {a.gate, a.up};
    ops().matmuls(matmuls);
    const auto n = static_cast<std::size_t>(a.gate.n_t) * static_cast<std::size_t>(a.gate.w.n_out);
    ops().geglu({a.gate.y, a.up.y, a.y, n});
  }

 private:
  Ops& ops() { return static_cast<Ops&>(*this); }
};

}  // namespace engine
