// Which kernels matmuls go to.
#include "kernels/cuda/matmul.cuh"

namespace engine::ENGINE_DEVICE_NS {

void matmul(const op::MatmulArgs& a, Stream& stream) { matmuls({&a, 1}, stream); }

void matmuls(std::span<const op::MatmulArgs> all, Stream& stream) {
  // Matmuls over planes wait for each other, to be launched together.
  op::MatmulArgs planes[Batch::kMost] = {};
  std::size_t n = 0;
  const auto launch_planes = [&] {
    if (n > 0) (planes[0].n_t <= kMatvecColumns ? matvec : matmul_tile)({planes, n}, stream);
    n = 0;
  };
  for (const op::MatmulArgs& a : all) {
    if (a.n_t == 0 || a.w.n_out == 0) continue;
    if (a.w.layout == op::Layout::rows) {
      matmul_rows(a, stream);
      continue;
    }
    if (n == Batch::kMost || (n > 0 && planes[0].n_t != a.n_t)) launch_planes();
    planes[n++] = a;
  }
  launch_planes();
}

}  // namespace engine::ENGINE_DEVICE_NS
