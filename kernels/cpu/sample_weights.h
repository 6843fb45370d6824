// vector: i by lanes; an element is one work item.
#pragma once

#include "kernels/cpu/lanes.h"
#include "kernels/op/math.h"
#include "kernels/op/sample_weights.h"

namespace engine::cpu {

template <class S>
void sample_weights_elements(const op::SampleWeightsArgs& a, int begin, int end) {
  for_lanes<S>(begin, end, [&]<class T>(int i) {
    const typename T::F below = T::sub(T::load(a.logits + i), T::set(a.max));
    const typename T::F e = op::exp<T>(T::div(below, T::set(a.temperature)));
    T::store(a.weights + i, T::mul(e, T::set(0x1p32f)));
  });
}

}  // namespace engine::cpu
