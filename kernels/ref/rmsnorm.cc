#include "kernels/op/rmsnorm.h"

#include <cmath>
#include <cstddef>

namespace engine::ref {

void rmsnorm(const op::RmsNormArgs& a) {
  for (int t = 0; t < a.n_t; ++t) {
    const float* x = a.x + std::ptrdiff_t{t} * a.n_i;
    float* y = a.y + std::ptrdiff_t{t} * a.n_i;
    // 1 sum of squares
    double ss = 0;
    for (int i = 0; i < a.n_i; ++i) ss += static_cast<double>(x[i]) * static_cast<double>(x[i]);
    // 2 scale
    const double r = 1 / std::sqrt(ss / a.n_i + static_cast<double>(a.eps));
    // 3 store
    for (int i = 0; i < a.n_i; ++i)
      y[i] = static_cast<float>(static_cast<double>(x[i]) * r * static_cast<double>(a.w[i]));
  }
}

}  // namespace engine::ref
