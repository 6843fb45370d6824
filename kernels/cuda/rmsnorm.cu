// grid: n_t; block: kNormLanes threads, a row a block; thread l is lane l of the sum and stores
// y[l], y[l + kNormLanes], …; shared memory: the lanes' sums.
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/norm_row.cuh"
#include "kernels/op/rmsnorm.h"

namespace engine::ENGINE_DEVICE_NS {
namespace {

__global__ void __launch_bounds__(op::kNormLanes) rmsnorm_kernel(op::RmsNormArgs a) {
  auto* const lanes = dynamic_shared<float>();
  const float* x = a.x + static_cast<std::ptrdiff_t>(block_index()) * a.n_i;
  float* y = a.y + static_cast<std::ptrdiff_t>(block_index()) * a.n_i;
  // 1 sum of squares
  const float ss = sum_of_squares(x, a.n_i, lanes);
  // 2 scale
  const float r = norm_scale(ss, a.n_i, a.eps);
  // 3 store
  for (int i = thread_index(); i < a.n_i; i += op::kNormLanes)
    store_global(y + i, load_global(x + i) * r * load_readonly(a.w + i));
}

}  // namespace

void rmsnorm(const op::RmsNormArgs& a, Stream& stream) {
  if (a.n_t == 0) return;
  launch(rmsnorm_kernel, a.n_t, op::kNormLanes, op::kNormLanes * sizeof(float), stream, a);
}

}  // namespace engine::ENGINE_DEVICE_NS
