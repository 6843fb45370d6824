// residual and geglu. vector: i by lanes; an element is one work item.
#pragma once

#include "kernels/cpu/lanes.h"
#include "kernels/op/geglu.h"
#include "kernels/op/math.h"
#include "kernels/op/residual.h"

namespace engine::cpu {

template <class S>
void residual_elements(const op::ResidualArgs& a, int begin, int end) {
  for_lanes<S>(begin, end, [&]<class T>(int i) {
    T::store(a.x + i, T::add(T::load(a.x + i), T::load(a.y + i)));
  });
}

template <class S>
void geglu_elements(const op::GegluArgs& a, int begin, int end) {
  for_lanes<S>(begin, end, [&]<class T>(int i) {
    const typename T::F x = T::load(a.gate + i), one = T::set(1.0f);
    // 1 argument of the tanh
    const typename T::F u =
        T::mul(T::mul(T::set(0.7978845608f), x), T::fma(T::mul(T::set(0.044715f), x), x, one));
    // 2 gate
    const typename T::F g = T::mul(T::mul(T::set(0.5f), x), T::add(one, op::tanh<T>(u)));
    // 3 product
    T::store(a.y + i, T::mul(g, T::load(a.up + i)));
  });
}

}  // namespace engine::cpu
