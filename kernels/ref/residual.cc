#include "kernels/op/residual.h"

namespace engine::ref {

void residual(const op::ResidualArgs& a) {
  for (std::size_t i = 0; i < a.n; ++i) a.x[i] += a.y[i];
}

}  // namespace engine::ref
