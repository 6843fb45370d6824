#include "kernels/op/sample_weights.h"

#include <cmath>

namespace engine::ref {

void sample_weights(const op::SampleWeightsArgs& a) {
  for (int i = 0; i < a.n; ++i) {
    const double below = static_cast<double>(a.logits[i]) - static_cast<double>(a.max);
    a.weights[i] =
        static_cast<float>(std::exp(below / static_cast<double>(a.temperature)) * 0x1p32);
  }
}

}  // namespace engine::ref
