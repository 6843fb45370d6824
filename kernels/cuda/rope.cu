// grid: ceil(n_t * n_h * d/2 / 256); block: 256 threads, a pair (i, i + d/2) of a head each.
#include "kernels/cuda/elementwise.cuh"
#include "kernels/cuda/rotate.cuh"
#include "kernels/op/rope.h"

namespace engine::ENGINE_DEVICE_NS {
namespace {

__global__ void __launch_bounds__(kElementThreads) rope_kernel(op::RopeArgs a) {
  const int half = a.d / 2;
  const std::ptrdiff_t pair = element_index(), head = pair / half;
  const std::ptrdiff_t t = head / a.n_h;
  if (t >= a.n_t) return;
  const int i = static_cast<int>(pair - head * half);
  float* lo = a.x + head * a.d + i;
  const Pair rotated =
      rotate({load_global(lo), load_global(lo + half)}, load_readonly(a.cos + t * half + i),
             load_readonly(a.sin + t * half + i), a.scale);
  store_global(lo, rotated.lo);
  store_global(lo + half, rotated.hi);
}

}  // namespace

void rope(const op::RopeArgs& a, Stream& stream) {
  const std::ptrdiff_t n = std::ptrdiff_t{a.n_t} * a.n_h * (a.d / 2);
  if (n == 0) return;
  launch(rope_kernel, element_grid(n), kElementThreads, 0, stream, a);
}

}  // namespace engine::ENGINE_DEVICE_NS
