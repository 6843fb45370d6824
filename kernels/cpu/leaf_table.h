// Builds the Leaf of a vector class. Included by each leaf_*.cc, after its class.
#pragma once

#include "kernels/cpu/attention.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/kv_write.h"
#include "kernels/cpu/leaf.h"
#include "kernels/cpu/logsumexp.h"
#include "kernels/cpu/matmul_planes.h"
#include "kernels/cpu/matmul_rows.h"
#include "kernels/cpu/quantize.h"
#include "kernels/cpu/rmsnorm.h"
#include "kernels/cpu/rope.h"
#include "kernels/cpu/sample_weights.h"

namespace engine::cpu {

template <class S>
void matmul_items(const op::MatmulArgs& a, int begin, int end) {
  if (a.w.layout == op::Layout::rows) return matmul_rows<S>(a, begin, end);
  switch (a.w.type) {
    case gguf::Type::q8_0:
      if (a.w.layout == op::Layout::split_planes)
        return planes_groups<S, Q8_0SplitPlanes>(a, begin, end);
      return planes_groups<S, Q8_0Planes>(a, begin, end);
    case gguf::Type::q5_0:
      return planes_groups<S, Q5_0Planes>(a, begin, end);
    case gguf::Type::q4_k:
      return planes_groups<S, Q4_KPlanes>(a, begin, end);
    case gguf::Type::q6_k:
      return planes_groups<S, Q6_KPlanes>(a, begin, end);
    default:
      return;
  }
}

template <class S>
constexpr Leaf make_leaf() {
  return {
      .rmsnorm = rmsnorm_rows<S>,
      .quantize = quantize_rows<S>,
      .matmul = matmul_items<S>,
      .direct_columns = S::kDirectColumns,
      .tile_groups = S::kTileGroups,
      .rope = rope_rows<S>,
      .kv_write = kv_write_rows<S>,
      .attention = attention_queries<S>,
      .residual = residual_elements<S>,
      .geglu = geglu_elements<S>,
      .logsumexp = logsumexp_rows<S>,
      .sample_weights = sample_weights_elements<S>,
  };
}

}  // namespace engine::cpu
