// grid: ceil(n_t * n_kv * d / 256); block: 256 threads, an element of k and the one of v each.
#include "kernels/cuda/elementwise.cuh"
#include "kernels/cuda/kv_store.cuh"
#include "kernels/op/kv_write.h"

namespace engine::ENGINE_DEVICE_NS {
namespace {

template <class Element>
__global__ void __launch_bounds__(kElementThreads) kv_write_kernel(op::KvWriteArgs a) {
  const int row_size = a.shape.n_kv * a.shape.d;
  const std::ptrdiff_t element = element_index(), t = element / row_size;
  if (t >= a.n_t) return;
  const int head_dim = static_cast<int>(element - t * row_size);
  const op::KvRow row = {load_readonly(&a.rows[t].pos), 0, load_readonly(&a.rows[t].sequence)};
  std::byte* page = page_of(a.pages, row);
  const int slot = row.pos % op::kPage;
  // 1 keys
  store_key<Element>(page, slot, head_dim, load_global(a.k + element));
  // 2 values
  store_value<Element>(page, a.shape, slot, head_dim, load_global(a.v + element));
}

}  // namespace

void kv_write(const op::KvWriteArgs& a, Stream& stream) {
  const std::ptrdiff_t n = std::ptrdiff_t{a.n_t} * a.shape.n_kv * a.shape.d;
  if (n == 0) return;
  const auto kernel =
      a.shape.type == op::KvType::f16 ? kv_write_kernel<std::uint16_t> : kv_write_kernel<float>;
  launch(kernel, element_grid(n), kElementThreads, 0, stream, a);
}

}  // namespace engine::ENGINE_DEVICE_NS
