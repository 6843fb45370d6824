// The activations of a batch of rows on their way through the model.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/config.h"
#include "kernels/op/kv_page.h"
#include "kernels/op/quantize.h"

namespace engine {

// cos and sin of every row's position for one rope base.
struct RopeTable {
  std::vector<double> frequency;  // [head_dim / 2], base^(-2i / head_dim)
  std::vector<float> cos, sin;    // [n_rows, head_dim / 2]
};

// A matmul's input: in fp32, and quantised to 16 bits.
struct Activations {
  std::vector<float> x;                        // [n_rows, width]
  std::vector<std::int16_t> q;                 // [n_rows, width]
  std::vector<float> scale;                    // [n_rows, width / 32]
  std::vector<std::int32_t> sum16, product16;  // [n_rows, width / 16]
  int width = 0;
  op::QuantizedRows quantized() { return {q.data(), scale.data(), sum16.data(), product16.data()}; }
};

// The rows of one forward pass.
struct Batch {
  std::span<const std::int32_t> tokens;  // [n_rows]
  std::span<const op::KvRow> rows;       // [n_rows]
  op::KvShape kv_shape;
  // [n_layers]: the page tables of the batch's sequences.
  std::span<const op::KvPages> kv_pages;
  int n_wanted;  // the last so many rows are wanted after the last layer: 1..n_rows
  int n_rows() const noexcept { return static_cast<int>(rows.size()); }
};

struct State {
  std::vector<float> x;          // [n_rows, d_model]  the residual stream
  Activations normed;            // [n_rows, d_model]
  std::vector<float> q;          // [n_rows, n_heads, head_dim]
  std::vector<float> k, v;       // [n_rows, n_kv_heads, head_dim]
  Activations attended;          // [n_rows, n_heads * head_dim]
  std::vector<float> gate, up;   // [n_rows, d_ff]
  Activations gated;             // [n_rows, d_ff]
  std::vector<float> projected;  // [n_rows, d_model]  what joins the residual stream
  RopeTable rope_global, rope_local;

  // Makes room for n_rows rows, and gives none up: buffers may be longer than their shapes say.
  // Throws std::bad_alloc.
  void reserve(const Config& config, int n_rows);
  // Fills the rope tables for the positions of rows begin..end-1; different rows may be filled at the
  // same time. Angles are computed in double and rounded once.
  void set_positions(const Config& config, std::span<const op::KvRow> rows, int begin, int end);
};

// What a pass over the weights works in. The passes of all sessions of a model run one at a time and
// share one.
struct Workspace {
  State state;
  std::vector<op::KvRow> rows;            // of the batch
  std::vector<std::byte* const*> tables;  // [n_layers, n_sequences]
  std::vector<op::KvPages> pages;         // [n_layers]
  std::vector<float> logits;              // of rows whose logits are computed together
};

}  // namespace engine
