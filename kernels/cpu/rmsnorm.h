// vector: i by lanes within the 128 partial sums; a row is one work item.
#pragma once

#include <cstddef>

#include "kernels/cpu/lanes.h"
#include "kernels/op/rmsnorm.h"

namespace engine::cpu {

template <class S>
void rmsnorm_rows(const op::RmsNormArgs& a, int begin, int end) {
  alignas(64) float lanes[op::kNormLanes];
  for (int t = begin; t < end; ++t) {
    const float* x = a.x + static_cast<std::ptrdiff_t>(t) * a.n_i;
    float* y = a.y + static_cast<std::ptrdiff_t>(t) * a.n_i;
    // 1 sum of squares
    sum_in_lanes<S, op::kNormLanes>(a.n_i, lanes, [&]<class T>(typename T::F p, int i) {
      const typename T::F v = T::load(x + i);
      return T::fma(v, v, p);
    });
    const float ss = halving_tree<S>(lanes, op::kNormLanes);
    // 2 scale
    const float r = 1.0f / ::sqrtf(ss / static_cast<float>(a.n_i) + a.eps);
    // 3 store
    for_lanes<S>(0, a.n_i, [&]<class T>(int i) {
      T::store(y + i, T::mul(T::mul(T::load(x + i), T::set(r)), T::load(a.w + i)));
    });
  }
}

}  // namespace engine::cpu
