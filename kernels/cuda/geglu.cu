// grid: ceil(n / 256); block: 256 threads, an element each.
#include "kernels/cuda/elementwise.cuh"
#include "kernels/op/geglu.h"
#include "kernels/op/math.h"

namespace engine::ENGINE_DEVICE_NS {
namespace {

__global__ void __launch_bounds__(kElementThreads) geglu_kernel(op::GegluArgs a) {
  const std::ptrdiff_t i = element_index();
  if (static_cast<std::size_t>(i) >= a.n) return;
  const float x = load_global(a.gate + i);
  // 1 argument of the tanh
  const float u = (0.7978845608f * x) * op::Scalar::fma(0.044715f * x, x, 1.0f);
  // 2 gate
  const float g = (0.5f * x) * (1.0f + op::tanh(u));
  // 3 product
  store_global(a.y + i, g * load_global(a.up + i));
}

}  // namespace

void geglu(const op::GegluArgs& a, Stream& stream) {
  if (a.n == 0) return;
  launch(geglu_kernel, element_grid(static_cast<std::ptrdiff_t>(a.n)), kElementThreads, 0, stream,
         a);
}

}  // namespace engine::ENGINE_DEVICE_NS
