// grid: n_t; block: 64 threads, a candidate each.
#include "kernels/cuda/block.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/op/math.h"
#include "kernels/op/sample.h"

namespace engine::ENGINE_DEVICE_NS {
namespace {

constexpr int kThreads = op::kMaxTopLogits;

struct Shared {
  std::uint64_t weights[kThreads], kept[kThreads];  // of nobody: 0
  std::int32_t ids[kThreads];
};

__global__ void __launch_bounds__(kThreads) sample_kernel(op::SampleArgs a) {
  auto* const shared = dynamic_shared<Shared>();
  const std::ptrdiff_t t = block_index(), first = t * a.k;
  const int i = thread_index();
  const op::Draw* const draw = a.draws + t;
  // 1 weights
  std::uint64_t weight = 0;
  std::int32_t id = 0;
  if (i < a.k) {
    const float below = load_global(a.values + first + i) - load_global(a.values + first);
    weight =
        op::integer_weight(op::exp<op::Scalar>(below / load_global(&draw->temperature)) * 0x1p32f);
    id = load_global(a.ids + first + i);
  }
  store_shared(&shared->weights[i], weight);
  store_shared(&shared->ids[i], id);
  __syncthreads();
  // 2 top-p, min-p
  std::uint64_t sum = 0, before = 0;
  for (int j = 0; j < a.k; ++j) {
    const std::uint64_t other = load_shared(&shared->weights[j]);
    sum += other;
    if (other > weight || (other == weight && load_shared(&shared->ids[j]) < id)) before += other;
  }
  const op::Draw d = {0, load_global(&draw->top_p_mantissa), load_global(&draw->top_p_shift),
                      load_global(&draw->min_weight), load_global(&draw->bits)};
  if (before >= op::top_p_mass(d, sum) || weight < d.min_weight) weight = 0;
  store_shared(&shared->kept[i], weight);
  __syncthreads();
  // 3 draw
  sum = before = 0;
  for (int j = 0; j < a.k; ++j) {
    const std::uint64_t other = load_shared(&shared->kept[j]);
    sum += other;
    if (load_shared(&shared->ids[j]) < id) before += other;
  }
  const std::uint64_t mark = op::product_high(d.bits, sum);
  const bool is_drawn = sum == 0 ? i == 0 : before <= mark && mark - before < weight;
  if (!is_drawn) return;
  store_global(&a.choices[t].token, id);
  store_global(&a.choices[t].non_finite, load_global(a.non_finite + t));
}

}  // namespace

void sample(const op::SampleArgs& a, Stream& stream) {
  if (a.n_t == 0) return;
  launch(sample_kernel, a.n_t, kThreads, sizeof(Shared), stream, a);
}

}  // namespace engine::ENGINE_DEVICE_NS
