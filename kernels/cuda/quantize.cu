// grid: ceil(n_t * n_i/32 / 8); block: 8 warps, a block of 32 inputs each; lane i has input i.
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/quantize_block.cuh"
#include "kernels/op/quantize.h"

namespace engine::ENGINE_DEVICE_NS {
namespace {

constexpr int kWarps = 8;

__global__ void __launch_bounds__(kWarps* kWarp)
    quantize_kernel(op::QuantizeArgs a, std::ptrdiff_t n_blocks) {
  const std::ptrdiff_t b = static_cast<std::ptrdiff_t>(block_index()) * kWarps + warp_index();
  if (b >= n_blocks) return;
  quantize_block(load_global(a.x + b * op::kBlock + lane_index()), a.y, b);
}

}  // namespace

void quantize(const op::QuantizeArgs& a, Stream& stream) {
  const std::ptrdiff_t n_blocks = std::ptrdiff_t{a.n_t} * (a.n_i / op::kBlock);
  if (n_blocks == 0) return;
  launch(quantize_kernel, static_cast<int>((n_blocks + kWarps - 1) / kWarps), kWarps * kWarp, 0,
         stream, a, n_blocks);
}

}  // namespace engine::ENGINE_DEVICE_NS
