// The matmul kernels behind matmuls() (kernels/op/matmul.h). Every n_t and n_out is at least 1.
#pragma once

#include <span>

#include "kernels/cuda/launch.cuh"
#include "kernels/op/ffn_gate_up.h"
#include "kernels/op/head_logits.h"

namespace engine::ENGINE_DEVICE_NS {

// Weights of any type as they are in the file (Layout::rows).
void matmul_rows(const op::MatmulArgs&, Stream&);

// Matrices in planes (Layout::device_planes) that one launch multiplies, all with the same n_t. Those of a block are
// found by its number in x.
struct Batch {
  static constexpr int kMost = 4;
  op::MatmulArgs of[kMost];
  int first_block[kMost];
  int n;
  // Null, or of[0] and of[1], of one type, end in geglu's y.
  float* gated;
  // Null, or of[0].y are the logits of one row, below n_ids of tokens, and each block has a span of them.
  op::LogitSpan* spans;
  int n_ids;

  __host__ __device__ int find(int block) const {
    int m = 0;
    while (m + 1 < n && block >= first_block[m + 1]) ++m;
    return m;
  }
};

// At most Batch::kMost matrices. Made for up to 8 columns.
inline constexpr int kMatvecColumns = 8;
void matvec(std::span<const op::MatmulArgs>, Stream&);
void matvec_gated(const op::FfnGateUpArgs&, Stream&);
// Returns the ids of a span.
int matvec_spans(const op::HeadLogitsArgs&, Stream&);
// The same for more.
void matmul_tile(std::span<const op::MatmulArgs>, Stream&);

}  // namespace engine::ENGINE_DEVICE_NS
