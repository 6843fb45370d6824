#include "kernels/op/logsumexp.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace engine::ref {

void logsumexp(const op::LogSumExpArgs& a) {
  for (int t = 0; t < a.n_t; ++t) {
    const float* logits = a.logits + std::ptrdiff_t{t} * a.n_vocab;
    // 1 maximum
    const double m = static_cast<double>(*std::max_element(logits, logits + a.n_vocab));
    // 2 sum of exponentials
    double z = 0;
    for (int i = 0; i < a.n_vocab; ++i) z += std::exp(static_cast<double>(logits[i]) - m);
    // 3 logarithm
    a.lse[t] = static_cast<float>(m + std::log(z));
  }
}

}  // namespace engine::ref
