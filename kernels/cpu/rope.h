// vector: pairs by lanes; a row of all heads is one work item.
#pragma once

#include <cstddef>

#include "kernels/cpu/lanes.h"
#include "kernels/op/rope.h"

namespace engine::cpu {

template <class S>
void rope_rows(const op::RopeArgs& a, int begin, int end) {
  const int half = a.d / 2;
  for (int t = begin; t < end; ++t) {
    const float* cos = a.cos + static_cast<std::ptrdiff_t>(t) * half;
    const float* sin = a.sin + static_cast<std::ptrdiff_t>(t) * half;
    for (int h = 0; h < a.n_h; ++h) {
      float* lo = a.x + (static_cast<std::ptrdiff_t>(t) * a.n_h + h) * a.d;
      float* hi = lo + half;
      for_lanes<S>(0, half, [&]<class T>(int i) {
        const typename T::F x = T::load(lo + i), y = T::load(hi + i);
        const typename T::F c = T::load(cos + i), s = T::load(sin + i);
        T::store(lo + i, T::mul(T::fma(x, c, T::neg(T::mul(y, s))), T::set(a.scale)));
        T::store(hi + i, T::mul(T::fma(y, c, T::mul(x, s)), T::set(a.scale)));
      });
    }
  }
}

}  // namespace engine::cpu
