// Which kernel a matmul goes to.
#include "kernels/cuda/matmul.cuh"

namespace engine::ENGINE_DEVICE_NS {

void matmul(const op::MatmulArgs& a, Stream& stream) { matmuls({&a, 1}, stream); }

void matmuls(std::span<const op::MatmulArgs> all, Stream& stream) {
  for (const op::MatmulArgs& a : all)
    if (a.n_t > 0 && a.w.n_out > 0) matmul_rows(a, stream);
}

}  // namespace engine::ENGINE_DEVICE_NS
