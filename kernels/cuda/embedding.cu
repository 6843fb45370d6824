// grid: ceil(n_t * n_in / 256); block: 256 threads, an element of y each.
#include "kernels/cuda/decode.cuh"
#include "kernels/cuda/elementwise.cuh"
#include "kernels/op/embedding.h"

namespace engine::ENGINE_DEVICE_NS {
namespace {

__global__ void __launch_bounds__(kElementThreads) embedding_kernel(op::EmbeddingArgs a) {
  const std::ptrdiff_t element = element_index(), t = element / a.w.n_in;
  if (t >= a.n_t) return;
  const int i = static_cast<int>(element - t * a.w.n_in);
  store_global(a.y + element, decode_weight(a.w, load_readonly(a.tokens + t), i) * a.scale);
}

}  // namespace

void embedding(const op::EmbeddingArgs& a, Stream& stream) {
  const std::ptrdiff_t n = std::ptrdiff_t{a.n_t} * a.w.n_in;
  if (n == 0) return;
  launch(embedding_kernel, element_grid(n), kElementThreads, 0, stream, a);
}

}  // namespace engine::ENGINE_DEVICE_NS
