#include "kernels/op/geglu.h"

#include <cmath>

namespace engine::ref {

void geglu(const op::GegluArgs& a) {
  for (std::size_t i = 0; i < a.n; ++i) {
    const double x = static_cast<double>(a.gate[i]);
    // 1 argument of the tanh
    const double u = 0.7978845608 * x * (0.044715 * x * x + 1);
    // 2 gate
    const double g = 0.5 * x * (1 + std::tanh(u));
    // 3 product
    a.y[i] = static_cast<float>(g * static_cast<double>(a.up[i]));
  }
}

}  // namespace engine::ref
