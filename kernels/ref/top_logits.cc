#include "kernels/op/top_logits.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace engine::ref {

void top_logits(const op::TopLogitsArgs& a) {
  constexpr float kLowest = -std::numeric_limits<float>::infinity();
  for (int t = 0; t < a.n_t; ++t) {
    const float* logits = a.logits + std::ptrdiff_t{t} * a.n_vocab;
    // 1 finite?
    a.non_finite[t] =
        std::any_of(logits, logits + a.n_vocab, [](float v) { return !std::isfinite(v); });
    // 2 order
    std::vector<std::int32_t> ids;
    for (int i = 0; i < a.n_ids; ++i) ids.push_back(i);
    const auto value = [&](std::int32_t id) {
      return std::isnan(logits[id]) ? kLowest : logits[id];
    };
    std::stable_sort(ids.begin(), ids.end(),
                     [&](std::int32_t i, std::int32_t j) { return value(i) > value(j); });
    // 3 store
    for (int i = 0; i < a.k; ++i) {
      const std::ptrdiff_t at = std::ptrdiff_t{t} * a.k + i;
      a.ids[at] = ids[static_cast<std::size_t>(i)];
      a.values[at] = logits[a.ids[at]];
    }
  }
}

}  // namespace engine::ref
