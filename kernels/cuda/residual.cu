// grid: ceil(n / 256); block: 256 threads, an element each.
#include "kernels/cuda/elementwise.cuh"
#include "kernels/op/residual.h"

namespace engine::ENGINE_DEVICE_NS {
namespace {

__global__ void __launch_bounds__(kElementThreads) residual_kernel(op::ResidualArgs a) {
  const std::ptrdiff_t i = element_index();
  if (static_cast<std::size_t>(i) >= a.n) return;
  store_global(a.x + i, load_global(a.x + i) + load_global(a.y + i));
}

}  // namespace

void residual(const op::ResidualArgs& a, Stream& stream) {
  if (a.n == 0) return;
  launch(residual_kernel, element_grid(static_cast<std::ptrdiff_t>(a.n)), kElementThreads, 0,
         stream, a);
}

}  // namespace engine::ENGINE_DEVICE_NS
