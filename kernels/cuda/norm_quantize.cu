// grid: n_t; block: kNormLanes threads, a row a block; thread l is lane l of the sum and has the
// elements l, l + kNormLanes, …, so that a warp has whole blocks of 32; shared memory: the lanes'
// sums.
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/norm_row.cuh"
#include "kernels/op/norm_quantize.h"

namespace engine::ENGINE_DEVICE_NS {
namespace {

__global__ void __launch_bounds__(op::kNormLanes) norm_quantize_kernel(op::NormQuantizeArgs a) {
  auto* const lanes = dynamic_shared<float>();
  const float* x = a.x + static_cast<std::ptrdiff_t>(block_index()) * a.n_i;
  // 1 sum of squares  2 scale
  const float r = norm_scale(sum_of_squares(x, a.n_i, lanes), a.n_i, a.eps);
  // 3 quantised rows
  quantize_normed(x, r, a.w, a.n_i, a.y);
}

}  // namespace

void norm_quantize(const op::NormQuantizeArgs& a, Stream& stream) {
  if (a.n_t == 0) return;
  launch(norm_quantize_kernel, a.n_t, op::kNormLanes, op::kNormLanes * sizeof(float), stream, a);
}

}  // namespace engine::ENGINE_DEVICE_NS
