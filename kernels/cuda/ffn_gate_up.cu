// In matvec's launch where both matrices have planes of one type and columns are few; else the chain.
#include "kernels/cuda/matmul.cuh"
#include "kernels/op/ffn_gate_up.h"
#include "kernels/op/geglu.h"

namespace engine::ENGINE_DEVICE_NS {

void ffn_gate_up(const op::FfnGateUpArgs& a, Stream& stream) {
  const op::Matrix &gate = a.gate.w, &up = a.up.w;
  if (a.gate.n_t == 0 || gate.n_out == 0) return;
  const bool planes = gate.layout == op::Layout::device_planes && up.layout == gate.layout;
  if (planes && gate.type == up.type && a.gate.n_t <= kMatvecColumns)
    return matvec_gated(a, stream);
  const op::MatmulArgs both[] = {a.gate, a.up};
  matmuls(both, stream);
  geglu({a.gate.y, a.up.y, a.y,
         static_cast<std::size_t>(a.gate.n_t) * static_cast<std::size_t>(gate.n_out)},
        stream);
}

}  // namespace engine::ENGINE_DEVICE_NS
