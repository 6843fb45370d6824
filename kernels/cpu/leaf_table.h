// Builds the Leaf of a vector class. Included by each leaf_*.cc, after its class.
#pragma once

#include "kernels/cpu/attention.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/head_screen.h"
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
  visit_format(a.w.type, a.w.layout,
               [&]<class Format>() { planes_groups<S, Format>(a, begin, end); });
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
      .screen_bounds = screen_bounds_groups<S>,
      .screen_projections = screen_projections_groups<S>,
      .head_screen = head_screen_groups<S>,
  };
}

}  // namespace engine::cpu
