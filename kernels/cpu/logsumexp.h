// vector: i by lanes within the 128 partial sums of a chunk; a row is one work item.
#pragma once

#include <algorithm>
#include <cstddef>

#include "kernels/cpu/lanes.h"
#include "kernels/op/logsumexp.h"
#include "kernels/op/math.h"

namespace engine::cpu {

template <class S>
void logsumexp_rows(const op::LogSumExpArgs& a, int begin, int end) {
  alignas(64) float lanes[op::kNormLanes];
  for (int t = begin; t < end; ++t) {
    const float* logits = a.logits + static_cast<std::ptrdiff_t>(t) * a.n_vocab;
    // 1 maximum
    const float m = max_of<S>(logits, a.n_vocab);
    // 2 sum of exponentials
    float z = 0.0f;
    for (int first = 0; first < a.n_vocab; first += op::kVocabChunk) {
      const float* chunk = logits + first;
      sum_in_lanes<S, op::kNormLanes>(std::min(op::kVocabChunk, a.n_vocab - first), lanes,
                                      [&]<class T>(typename T::F p, int i) {
                                        return T::add(
                                            p, op::exp<T>(T::sub(T::load(chunk + i), T::set(m))));
                                      });
      z = z + halving_tree<S>(lanes, op::kNormLanes);
    }
    // 3 logarithm
    a.lse[t] = m + op::log<typename S::Tail>(z);
  }
}

}  // namespace engine::cpu
