// Which tensor of a GGUF file plays which role in the model. Names, presence, types and shapes are
// checked here, so that whoever loads the weights only has to read them.
#pragma once

#include <string>
#include <vector>

#include "engine/config.h"
#include "gguf/reader.h"
#include "gguf/result.h"

namespace engine {

// Matrices are [row, rows] in the file's order (fastest dimension first): y = W x has x[row],
// y[rows].
struct LayerTensors {
  const gguf::Tensor* attn_norm;            // [d_model]
  const gguf::Tensor* attn_q;               // [d_model, n_heads * head_dim]
  const gguf::Tensor* attn_k;               // [d_model, n_kv_heads * head_dim]
  const gguf::Tensor* attn_v;               // [d_model, n_kv_heads * head_dim]
  const gguf::Tensor* attn_q_norm;          // [head_dim]
  const gguf::Tensor* attn_k_norm;          // [head_dim]
  const gguf::Tensor* attn_output;          // [n_heads * head_dim, d_model]
  const gguf::Tensor* post_attention_norm;  // [d_model]
  const gguf::Tensor* ffn_norm;             // [d_model]
  const gguf::Tensor* ffn_gate;             // [d_model, d_ff]
  const gguf::Tensor* ffn_up;               // [d_model, d_ff]
  const gguf::Tensor* ffn_down;             // [d_ff, d_model]
  const gguf::Tensor* post_ffw_norm;        // [d_model]
};

// The tensors belong to the reader and live as long as it does.
struct TensorTable {
  const gguf::Tensor* token_embd;   // [d_model, n_vocab]
  const gguf::Tensor* output_norm;  // [d_model]
  const gguf::Tensor* output;       // [d_model, n_vocab]; null if the head is tied to token_embd
  std::vector<LayerTensors> layers;
  // Tensors of the file that have no role here and are ignored.
  std::vector<std::string> warnings;

  // Every tensor above, each once.
  std::vector<const gguf::Tensor*> all() const;

  // Norms must be F32, as every converter writes them; matrices may have any type the kernels run.
  // Errors: HPARAM where a hyperparameter contradicts all tensors of a role, or the number of
  // blocks differs; otherwise MISSING, TYPE, UNSUPPORTED and SHAPE, naming the tensor.
  static Result<TensorTable> from_file(const gguf::Reader& file, const Config& config);
};

}  // namespace engine
