// The functions that exist once per instruction-set level. Each does work items begin..end-1 of its
// op on the calling thread; cpu/ops.cc says what an item is and splits them over threads.
#pragma once

#include "kernels/op/attention.h"
#include "kernels/op/embedding.h"
#include "kernels/op/geglu.h"
#include "kernels/op/head_screen.h"
#include "kernels/op/kv_write.h"
#include "kernels/op/logsumexp.h"
#include "kernels/op/matmul.h"
#include "kernels/op/quantize.h"
#include "kernels/op/residual.h"
#include "kernels/op/rmsnorm.h"
#include "kernels/op/rope.h"
#include "kernels/op/sample_weights.h"

namespace engine::cpu {

// Queries (a head of a row each) that attention serves with one pass over keys and values, where
// adjacent work items share a KV head.
inline constexpr int kAttentionGroup = 4;

struct ScreenJob;

struct Leaf {
  void (*rmsnorm)(const op::RmsNormArgs&, int begin, int end);    // rows
  void (*quantize)(const op::QuantizeArgs&, int begin, int end);  // rows
  void (*matmul)(const op::MatmulArgs&, int begin, int end);  // output rows, or groups of planes
  // With more columns than direct_columns, matmul is fastest on whole tiles of so many groups.
  int direct_columns, tile_groups;
  void (*rope)(const op::RopeArgs&, int begin, int end);            // rows
  void (*kv_write)(const op::KvWriteArgs&, int begin, int end);     // rows
  void (*attention)(const op::AttentionArgs&, int begin, int end);  // queries, see attention.h
  void (*residual)(const op::ResidualArgs&, int begin, int end);    // elements
  void (*geglu)(const op::GegluArgs&, int begin, int end);          // elements
  void (*logsumexp)(const op::LogSumExpArgs&, int begin, int end);  // rows
  void (*sample_weights)(const op::SampleWeightsArgs&, int begin, int end);  // elements
  // Groups of 16 rows of the head, see head_screen.h.
  void (*screen_bounds)(const op::ScreenBoundsArgs&, int begin, int end);
  void (*screen_projections)(const op::ScreenProjectionsArgs&, int begin, int end);
  void (*head_screen)(const ScreenJob&, int begin, int end);
};

extern const Leaf kScalarLeaf;
#if defined(__x86_64__)
extern const Leaf kAvx2Leaf;
extern const Leaf kAvxVnniLeaf;
extern const Leaf kAvx512VlVnniLeaf;
extern const Leaf kAvx512VnniLeaf;
extern const Leaf kAvx512SumsLeaf;
#elif defined(__aarch64__)
extern const Leaf kNeonLeaf;
#endif

}  // namespace engine::cpu
