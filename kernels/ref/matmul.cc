#include "kernels/op/matmul.h"

#include "kernels/ref/weights.h"

namespace engine::ref {
namespace {

// x[t, i] as the kernel sees it: exact, or the value its quant stands for.
double input(const op::MatmulArgs& a, int t, int i) {
  const std::ptrdiff_t row = std::ptrdiff_t{t} * a.w.n_in;
  if (!op::takes_quantized(a.w.type)) return static_cast<double>(a.x[row + i]);
  return a.xq.q[row + op::quad_position(i)] *
         static_cast<double>(a.xq.scale[(row + i) / op::kBlock]);
}

}  // namespace

void matmul(const op::MatmulArgs& a) {
  for (int o = 0; o < a.w.n_out; ++o) {
    const std::vector<double> w = exact_row(a.w, o);
    for (int t = 0; t < a.n_t; ++t) {
      double sum = 0;
      for (int i = 0; i < a.w.n_in; ++i) sum += w[static_cast<std::size_t>(i)] * input(a, t, i);
      a.y[std::ptrdiff_t{t} * a.w.n_out + o] = static_cast<float>(sum);
    }
  }
}

}  // namespace engine::ref
