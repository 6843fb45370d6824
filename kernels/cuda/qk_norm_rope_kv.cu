// grid: x: n_t, y: query heads, then KV heads; block: kNormLanes threads, a head of a row a block;
// thread l is lane l of the sum and has the pairs l, l + kNormLanes, …; shared memory: the lanes'
// sums.
#include "kernels/cuda/kv_store.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/norm_row.cuh"
#include "kernels/cuda/rotate.cuh"
#include "kernels/op/qk_norm_rope_kv.h"

namespace engine::ENGINE_DEVICE_NS {
namespace {

// 1 norm  2 rotation: store(i, pair) for the thread's pairs (i, i + d/2) of the head x.
template <class Store>
__device__ __forceinline__ void norm_and_rotate(const op::QkNormRopeKvArgs& a, const float* x,
                                                const float* w, float scale, const Store& store) {
  const int d = a.shape.d, half = d / 2;
  const float r = norm_scale(sum_of_squares(x, d, dynamic_shared<float>()), d, a.eps);
  const std::ptrdiff_t table_row = static_cast<std::ptrdiff_t>(block_index()) * half;
  const auto normed = [&](int i) { return load_global(x + i) * r * load_readonly(w + i); };
  for (int i = thread_index(); i < half; i += op::kNormLanes)
    store(i, rotate({normed(i), normed(i + half)}, load_readonly(a.cos + table_row + i),
                    load_readonly(a.sin + table_row + i), scale));
}

template <class Element>
__global__ void __launch_bounds__(op::kNormLanes) qk_norm_rope_kv_kernel(op::QkNormRopeKvArgs a) {
  const int d = a.shape.d, half = d / 2, head = static_cast<int>(blockIdx.y);
  const std::ptrdiff_t t = block_index();
  if (head < a.n_h) {
    float* q = a.q + (t * a.n_h + head) * d;
    norm_and_rotate(a, q, a.q_w, a.scale, [&](int i, const Pair& pair) {
      store_global(q + i, pair.lo);
      store_global(q + i + half, pair.hi);
    });
    return;
  }
  // 3 keys and values
  const int kv_head = head - a.n_h, first = kv_head * d;
  const std::ptrdiff_t from = t * a.shape.n_kv * d + first;
  const op::KvRow row = {load_readonly(&a.rows[t].pos), 0, load_readonly(&a.rows[t].sequence)};
  std::byte* page = page_of(a.pages, row);
  const int slot = row.pos % op::kPage;
  norm_and_rotate(a, a.k + from, a.k_w, 1.0f, [&](int i, const Pair& pair) {
    store_key<Element>(page, slot, first + i, pair.lo);
    store_key<Element>(page, slot, first + i + half, pair.hi);
  });
  for (int i = thread_index(); i < d; i += op::kNormLanes)
    store_value<Element>(page, a.shape, slot, first + i, load_readonly(a.v + from + i));
}

}  // namespace

void qk_norm_rope_kv(const op::QkNormRopeKvArgs& a, Stream& stream) {
  if (a.n_t == 0) return;
  const dim3 grid(static_cast<unsigned>(a.n_t), static_cast<unsigned>(a.n_h + a.shape.n_kv));
  const auto kernel = a.shape.type == op::KvType::f16 ? qk_norm_rope_kv_kernel<std::uint16_t>
                                                      : qk_norm_rope_kv_kernel<float>;
  launch(kernel, grid, op::kNormLanes, op::kNormLanes * sizeof(float), stream, a);
}

}  // namespace engine::ENGINE_DEVICE_NS
