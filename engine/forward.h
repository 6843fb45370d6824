// The model. Written once over ForwardOps, so that the order of operations cannot differ between
// backends.
//
//   embed; for every layer: x += norm(attention(norm(x))), x += norm(feed_forward(norm(x))); head
#pragma once

#include <array>
#include <cmath>
#include <cstddef>

#include "engine/config.h"
#include "engine/ops.h"
#include "engine/state.h"
#include "engine/weights.h"

namespace engine {

// y = norm(x), row by row.
template <ForwardOps Ops>
void norm(Ops& ops, const Config& c, const float* x, const float* w, float* y, int n_rows) {
  ops.rmsnorm({x, w, y, n_rows, c.d_model, c.rms_eps});
}

// y[m] = W[m] x for matrices that share an input, in one go; it is quantised once, if any of them
// wants that.
struct Projection {
  const op::Matrix& w;
  float* y;  // [n_rows, w.n_out]
};
template <ForwardOps Ops, std::size_t n>
void project(Ops& ops, Activations& x, int n_rows, const Projection (&projections)[n]) {
  bool quantized = false;
  std::array<op::MatmulArgs, n> matmuls;
  for (std::size_t m = 0; m < n; ++m) {
    const auto& [w, y] = projections[m];
    quantized |= op::takes_quantized(w.type);
    matmuls[m] = {w, x.x, x.quantized, y, n_rows};
  }
  if (quantized) ops.quantize({x.x, x.quantized, n_rows, x.width});
  ops.matmuls(matmuls);
}

// s.projected = attention of the batch's last n_kept rows. All normed rows go to the KV cache; q and
// k are normed per head before they are rotated.
template <ForwardOps Ops>
void attention(Ops& ops, const Config& c, const LayerWeights& w, const Batch& b, State& s,
               std::size_t layer, int n_kept) {
  const bool local = c.is_local[layer];
  const RopeTable& rope = local ? s.rope_local : s.rope_global;
  const int n = b.n_rows(), h = c.n_heads, kv = c.n_kv_heads, d = c.head_dim;
  project(ops, s.normed, n, {{w.attn_q, s.q}, {w.attn_k, s.k}, {w.attn_v, s.v}});
  ops.rmsnorm({s.q, w.attn_q_norm, s.q, n * h, d, c.rms_eps});
  ops.rmsnorm({s.k, w.attn_k_norm, s.k, n * kv, d, c.rms_eps});
  const auto scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(c.query_width)));
  ops.rope({s.q, rope.cos, rope.sin, n, h, d, scale});
  ops.rope({s.k, rope.cos, rope.sin, n, kv, d, 1.0f});
  ops.kv_write({s.k, s.v, b.kv_shape, b.kv_pages[layer], b.rows.data(), n});
  const std::ptrdiff_t first = n - n_kept;
  ops.attention({s.q + first * h * d, b.kv_shape, b.kv_pages[layer], b.rows.data() + first,
                 s.attended.x, n_kept, h, local ? c.window : 0});
  project(ops, s.attended, n_kept, {{w.attn_output, s.projected}});
}

// s.projected = W_down (gelu(W_gate x) * W_up x) of the normed rows.
template <ForwardOps Ops>
void feed_forward(Ops& ops, const LayerWeights& w, int n_rows, State& s) {
  project(ops, s.normed, n_rows, {{w.ffn_gate, s.gate}, {w.ffn_up, s.up}});
  const std::size_t n = static_cast<std::size_t>(n_rows) * static_cast<std::size_t>(s.gated.width);
  ops.geglu({s.gate, s.up, s.gated.x, n});
  project(ops, s.gated, n_rows, {{w.ffn_down, s.projected}});
}

// In the last layer, rows that nobody wants go no further than their keys and values.
template <ForwardOps Ops>
void layer(Ops& ops, const Config& c, const LayerWeights& w, const Batch& b, State& s,
           std::size_t l) {
  const int n = l + 1 == c.is_local.size() ? b.n_wanted : b.n_rows();
  float* x = s.x + std::ptrdiff_t{b.n_rows() - n} * c.d_model;
  const std::size_t stream = static_cast<std::size_t>(n) * static_cast<std::size_t>(c.d_model);
  norm(ops, c, s.x, w.attn_norm, s.normed.x, b.n_rows());
  attention(ops, c, w, b, s, l, n);
  norm(ops, c, s.projected, w.post_attention_norm, s.projected, n);
  ops.residual({x, s.projected, stream});
  norm(ops, c, x, w.ffn_norm, s.normed.x, n);
  feed_forward(ops, w, n, s);
  norm(ops, c, s.projected, w.post_ffw_norm, s.projected, n);
  ops.residual({x, s.projected, stream});
}

// s.x = embeddings of the batch's tokens, scaled by f32(sqrt(d_model)).
template <ForwardOps Ops>
void embed(Ops& ops, const Config& c, const Weights& w, const Batch& b, State& s) {
  const auto scale = static_cast<float>(std::sqrt(static_cast<double>(c.d_model)));
  ops.embedding({w.token_embd, b.tokens.data(), s.x, b.n_rows(), scale});
}

// Layers first..last-1. After the model's last one, s.x holds the hidden states of the batch's last
// n_wanted rows at their places.
template <ForwardOps Ops>
void layers(Ops& ops, const Config& c, const Weights& w, const Batch& b, State& s,
            std::size_t first, std::size_t last) {
  for (std::size_t l = first; l < last; ++l) layer(ops, c, w.layers[l], b, s, l);
}

// Logits [n_rows, n_vocab] of hidden rows [n_rows, d_model] as the last layer left them.
template <ForwardOps Ops>
void head(Ops& ops, const Config& c, const Weights& w, const float* hidden, int n_rows, State& s,
          float* logits) {
  norm(ops, c, hidden, w.output_norm, s.normed.x, n_rows);
  project(ops, s.normed, n_rows, {{w.output, logits}});
}

}  // namespace engine
