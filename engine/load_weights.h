// The order in which every backend loads a model's tensors.
//
// A Loader has
//   Result<op::Matrix> matrix(const gguf::Tensor&, bool is_head);
//   Result<const float*> vector(const gguf::Tensor&);
// which place one tensor after the other in the backend's memory.
#pragma once

#include "engine/tensors.h"
#include "engine/weights.h"

namespace engine {

inline const gguf::Tensor& head_of(const TensorTable& table) {
  return table.output != nullptr ? *table.output : *table.token_embd;
}

template <class Loader>
Result<LayerWeights> load_layer(Loader& loader, const LayerTensors& t) {
  LayerWeights l = {};
  ENGINE_ASSIGN(l.attn_norm, loader.vector(*t.attn_norm));
  ENGINE_ASSIGN(l.attn_q, loader.matrix(*t.attn_q, false));
  ENGINE_ASSIGN(l.attn_k, loader.matrix(*t.attn_k, false));
  ENGINE_ASSIGN(l.attn_v, loader.matrix(*t.attn_v, false));
  ENGINE_ASSIGN(l.attn_q_norm, loader.vector(*t.attn_q_norm));
  ENGINE_ASSIGN(l.attn_k_norm, loader.vector(*t.attn_k_norm));
  ENGINE_ASSIGN(l.attn_output, loader.matrix(*t.attn_output, false));
  ENGINE_ASSIGN(l.post_attention_norm, loader.vector(*t.post_attention_norm));
  ENGINE_ASSIGN(l.ffn_norm, loader.vector(*t.ffn_norm));
  ENGINE_ASSIGN(l.ffn_gate, loader.matrix(*t.ffn_gate, false));
  ENGINE_ASSIGN(l.ffn_up, loader.matrix(*t.ffn_up, false));
  ENGINE_ASSIGN(l.ffn_down, loader.matrix(*t.ffn_down, false));
  ENGINE_ASSIGN(l.post_ffw_norm, loader.vector(*t.post_ffw_norm));
  return l;
}

template <class Loader>
Result<Weights> load_weights(Loader& loader, const TensorTable& table) {
  Weights weights;
  const gguf::Tensor& head = head_of(table);
  ENGINE_ASSIGN(weights.token_embd, loader.matrix(*table.token_embd, table.token_embd == &head));
  ENGINE_ASSIGN(weights.output_norm, loader.vector(*table.output_norm));
  weights.output = weights.token_embd;
  if (table.output != nullptr) {
    ENGINE_ASSIGN(weights.output, loader.matrix(*table.output, true));
  }
  for (const LayerTensors& tensors : table.layers) {
    ENGINE_ASSIGN(LayerWeights layer, load_layer(loader, tensors));
    weights.layers.push_back(layer);
  }
  return weights;
}

}  // namespace engine
