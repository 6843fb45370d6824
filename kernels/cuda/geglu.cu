// grid: ceil(n / 256); block: 256 threads, an element each.
#include "kernels/cuda/elementwise.cuh"
#include "kernels/cuda/gated.cuh"

namespace engine::ENGINE_DEVICE_NS {
namespace {

__global__ void __launch_bounds__(kElementThreads) geglu_kernel(op::GegluArgs a) {
  const std::ptrdiff_t i = element_index();
  if (static_cast<std::size_t>(i) >= a.n) return;
  store_global(a.y + i, gated(load_global(a.gate + i), load_global(a.up + i)));
}

}  // namespace

void geglu(const op::GegluArgs& a, Stream& stream) {
  if (a.n == 0) return;
  launch(geglu_kernel, element_grid(static_cast<std::ptrdiff_t>(a.n)), kElementThreads, 0, stream,
         a);
}

}  // namespace engine::ENGINE_DEVICE_NS
