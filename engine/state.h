// The activations of a batch of rows on their way through the model, in memory of the backend.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/config.h"
#include "engine/huge_buffer.h"
#include "engine/placer.h"
#include "kernels/op/attention.h"
#include "kernels/op/quantize.h"

namespace engine {

// cos and sin of every row's position for one rope base.
struct RopeTable {
  float *cos, *sin;  // [n_rows, head_dim / 2]
};

// A matmul's input: in fp32, and quantised to 16 bits.
struct Activations {
  float* x;                     // [n_rows, width]
  op::QuantizedRows quantized;  // of the same
  int width;
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
  float* x;              // [n_rows, d_model]  the residual stream
  Activations normed;    // [n_rows, d_model]
  float* q;              // [n_rows, n_heads, head_dim]
  float *k, *v;          // [n_rows, n_kv_heads, head_dim]
  Activations attended;  // [n_rows, n_heads * head_dim]
  float *gate, *up;      // [n_rows, d_ff]
  Activations gated;     // [n_rows, d_ff]
  float* projected;      // [n_rows, d_model]  what joins the residual stream
  RopeTable rope_global, rope_local;
  op::AttentionSplit attention_split = {};  // of the pass, where a backend wants one
};

// A State with arrays of n_rows rows.
State place_state(const Config& config, int n_rows, Placer& placer);

// The angles that positions turn by.
class RopeAngles {
 public:
  explicit RopeAngles(const Config& config);
  // Worth waking a thread: a row has 100 sines and more.
  static constexpr int kRowsAPart = 8;
  // Fills tables in host memory for the positions of rows begin..end-1; different rows may be filled at
  // the same time. Angles are computed in double and rounded once.
  void fill(std::span<const op::KvRow> rows, int begin, int end, const RopeTable& global,
            const RopeTable& local) const;

 private:
  struct Base {
    std::vector<double> frequency;  // [head_dim / 2], base^(-2i / head_dim)
    double factor;                  // positions are divided by it
    void fill(int position, std::size_t row, const RopeTable& table) const;
  };
  Base global_, local_;
};

// A State in this process's memory that grows with the largest batch.
class HostState {
 public:
  // Makes room for n_rows rows, and gives none up; what the arrays held is lost when they have to grow.
  // Errors: out_of_memory.
  Status reserve(const Config& config, int n_rows);
  State& get() noexcept { return state_; }
  const State& get() const noexcept { return state_; }

 private:
  HugeBuffer memory_;
  int n_rows_ = 0;
  State state_ = {};
};

}  // namespace engine
