// grid: ceil(n / 256); block: 256 threads, a logit each.
#include "kernels/cuda/elementwise.cuh"
#include "kernels/op/math.h"
#include "kernels/op/sample_weights.h"

namespace engine::ENGINE_DEVICE_NS {
namespace {

__global__ void __launch_bounds__(kElementThreads) sample_weights_kernel(op::SampleWeightsArgs a) {
  const std::ptrdiff_t i = element_index();
  if (i >= a.n) return;
  const float below = load_global(a.logits + i) - a.max;
  store_global(a.weights + i, op::exp(below / a.temperature) * 0x1p32f);
}

}  // namespace

void sample_weights(const op::SampleWeightsArgs& a, Stream& stream) {
  if (a.n == 0) return;
  launch(sample_weights_kernel, element_grid(a.n), kElementThreads, 0, stream, a);
}

}  // namespace engine::ENGINE_DEVICE_NS
