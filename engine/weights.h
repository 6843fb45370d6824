// The model's weights in memory, arranged for the CPU backend.
#pragma once

#include <span>
#include <vector>

#include "engine/config.h"
#include "engine/engine.h"
#include "engine/huge_buffer.h"
#include "engine/tensors.h"
#include "gguf/reader.h"
#include "kernels/cpu/pool.h"
#include "kernels/op/matrix.h"

namespace engine {

struct LayerWeights {
  const float* attn_norm;            // [d_model]
  op::Matrix attn_q;                 // [n_heads * head_dim, d_model]
  op::Matrix attn_k, attn_v;         // [n_kv_heads * head_dim, d_model]
  const float* attn_q_norm;          // [head_dim]
  const float* attn_k_norm;          // [head_dim]
  op::Matrix attn_output;            // [d_model, n_heads * head_dim]
  const float* post_attention_norm;  // [d_model]
  const float* ffn_norm;             // [d_model]
  op::Matrix ffn_gate, ffn_up;       // [d_ff, d_model]
  op::Matrix ffn_down;               // [d_model, d_ff]
  const float* post_ffw_norm;        // [d_model]
};

struct Weights {
  op::Matrix token_embd;     // [n_vocab, d_model]
  const float* output_norm;  // [d_model]
  op::Matrix output;         // [n_vocab, d_model]; the same bytes as token_embd if the head is tied
  std::vector<LayerWeights> layers;
  HugeBuffer memory;  // holds all of the above

  struct LoadOptions {
    bool check_tensors = false;  // NaN and infinity in the weights are an error (VALUE)
    ProgressFn progress = {};
  };
  // Reads every tensor once, in slices, and repacks it on the pool's threads. The file may change
  // or vanish afterwards.
  static Result<Weights> load(const gguf::Reader& file, const TensorTable& table, cpu::Pool& pool,
                              const LoadOptions& options);
};

}  // namespace engine
