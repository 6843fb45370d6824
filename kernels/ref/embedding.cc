#include "kernels/op/embedding.h"

#include "kernels/ref/weights.h"

namespace engine::ref {

void embedding(const op::EmbeddingArgs& a) {
  for (int t = 0; t < a.n_t; ++t) {
    float* y = a.y + std::ptrdiff_t{t} * a.w.n_in;
    for (const float w : decoded_row(a.w, a.tokens[t])) *y++ = w * a.scale;
  }
}

}  // namespace engine::ref
