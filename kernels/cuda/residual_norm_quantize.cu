// grid: n_t; block: kNormLanes threads, a row a block; thread l is lane l of both sums and has the
// elements l, l + kNormLanes, …, so that a warp has whole blocks of 32; shared memory: the lanes'
// sums, twice.
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/norm_row.cuh"
#include "kernels/op/residual_norm_quantize.h"

namespace engine::ENGINE_DEVICE_NS {
namespace {

__global__ void __launch_bounds__(op::kNormLanes)
    residual_norm_quantize_kernel(op::ResidualNormQuantizeArgs a) {
  auto* const lanes = dynamic_shared<float>();
  const std::ptrdiff_t row = static_cast<std::ptrdiff_t>(block_index()) * a.n_i;
  float* x = a.x + row;
  const float* y = a.y + row;
  // 1 norm of y
  const float post_r = norm_scale(sum_of_squares(y, a.n_i, lanes), a.n_i, a.eps);
  // 2 residual, with the next norm's sum of squares
  float p = 0.0f;
  for (int i = thread_index(); i < a.n_i; i += op::kNormLanes) {
    const float normed = load_global(y + i) * post_r * load_readonly(a.post_w + i);
    const float v = load_global(x + i) + normed;
    store_global(x + i, v);
    p = op::Scalar::fma(v, v, p);
  }
  const float r = norm_scale(norm_tree(p, lanes + op::kNormLanes), a.n_i, a.eps);
  // 3 quantised rows
  quantize_normed(x, r, a.w, a.n_i, a.q);
}

}  // namespace

void residual_norm_quantize(const op::ResidualNormQuantizeArgs& a, Stream& stream) {
  if (a.n_t == 0) return;
  launch(residual_norm_quantize_kernel, a.n_t, op::kNormLanes, 2 * op::kNormLanes * sizeof(float),
         stream, a);
}

}  // namespace engine::ENGINE_DEVICE_NS
