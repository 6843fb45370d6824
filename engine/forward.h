// The model. Written once over ForwardOps, so that the order of operations cannot differ between
// backends.
//
//   embed; for every layer: x += norm(attention(norm(x))), x += norm(feed_forward(norm(x))); head
//
// What follows a projection is one op with the norm before the next one, so s.normed is filled at the end
// of each half of a layer for the half that comes.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>

#include "engine/config.h"
#include "engine/ops.h"
#include "engine/state.h"
#include "engine/weights.h"

namespace engine {

// In which forms matrices read the input that they share.
struct Reads {
  bool floats, quantized;
  template <class... Matrix>
  explicit Reads(const Matrix&... m)
      : floats((!op::takes_quantized(m.type) || ...)),
        quantized((op::takes_quantized(m.type) || ...)) {}
};
inline Reads attention_reads(const LayerWeights& w) { return Reads(w.attn_q, w.attn_k, w.attn_v); }
inline Reads feed_forward_reads(const LayerWeights& w) { return Reads(w.ffn_gate, w.ffn_up); }

// y = norm(x), row by row.
template <ForwardOps Ops>
void norm(Ops& ops, const Config& c, const float* x, const float* w, Activations& y, int n_rows,
          const Reads& reads) {
  if (!reads.floats)
    return ops.norm_quantize({x, w, y.x, y.quantized, n_rows, c.d_model, c.rms_eps});
  ops.rmsnorm({x, w, y.x, n_rows, c.d_model, c.rms_eps});
  if (reads.quantized) ops.quantize({y.x, y.quantized, n_rows, c.d_model});
}

// x += norm(s.projected).
template <ForwardOps Ops>
void add_normed(Ops& ops, const Config& c, State& s, float* x, const float* post_w, int n_rows) {
  ops.rmsnorm({s.projected, post_w, s.projected, n_rows, c.d_model, c.rms_eps});
  ops.residual(
      {x, s.projected, static_cast<std::size_t>(n_rows) * static_cast<std::size_t>(c.d_model)});
}

// x += norm(s.projected), then s.normed = norm(x).
template <ForwardOps Ops>
void add_normed_and_norm(Ops& ops, const Config& c, State& s, float* x, const float* post_w,
                         const float* w, int n_rows, const Reads& reads) {
  if (!reads.floats)
    return ops.residual_norm_quantize(
        {x, s.projected, post_w, w, s.normed.x, s.normed.quantized, n_rows, c.d_model, c.rms_eps});
  add_normed(ops, c, s, x, post_w, n_rows);
  norm(ops, c, x, w, s.normed, n_rows, reads);
}

// y[m] = W[m] x for matrices that share an input, in one go.
struct Projection {
  const op::Matrix& w;
  float* y;  // [n_rows, w.n_out]
};
template <ForwardOps Ops, std::size_t n>
void project(Ops& ops, const Activations& x, int n_rows, const Projection (&projections)[n]) {
  std::array<op::MatmulArgs, n> matmuls;
  for (std::size_t m = 0; m < n; ++m)
    matmuls[m] = {projections[m].w, x.x, x.quantized, projections[m].y, n_rows};
  ops.matmuls(matmuls);
}

// y = W x of an x that nobody has quantised yet.
template <ForwardOps Ops>
void quantize_and_project(Ops& ops, const Activations& x, int n_rows, const op::Matrix& w,
                          float* y) {
  if (op::takes_quantized(w.type)) ops.quantize({x.x, x.quantized, n_rows, x.width});
  project(ops, x, n_rows, {{w, y}});
}

// s.projected = attention of the batch's last n_kept rows. All normed rows go to the KV cache; q and
// k are normed per head before they are rotated.
template <ForwardOps Ops>
void attention(Ops& ops, const Config& c, const LayerWeights& w, const Batch& b, State& s,
               std::size_t layer, int n_kept) {
  const bool local = c.is_local[layer];
  const RopeTable& rope = local ? s.rope_local : s.rope_global;
  const int n = b.n_rows(), h = c.n_heads;
  project(ops, s.normed, n, {{w.attn_q, s.q}, {w.attn_k, s.k}, {w.attn_v, s.v}});
  const auto scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(c.query_width)));
  ops.qk_norm_rope_kv({s.q, s.k, s.v, w.attn_q_norm, w.attn_k_norm, rope.cos, rope.sin, b.kv_shape,
                       b.kv_pages[layer], b.rows.data(), n, h, c.rms_eps, scale});
  const std::ptrdiff_t first = n - n_kept;
  ops.attention({s.q + first * h * c.head_dim, b.kv_shape, b.kv_pages[layer], b.rows.data() + first,
                 s.attended.x, n_kept, h, local ? c.window : 0, s.attention_split});
  quantize_and_project(ops, s.attended, n_kept, w.attn_output, s.projected);
}

// s.projected = W_down (gelu(W_gate x) * W_up x) of the normed rows.
template <ForwardOps Ops>
void feed_forward(Ops& ops, const LayerWeights& w, int n_rows, State& s) {
  const Activations& x = s.normed;
  ops.ffn_gate_up({{w.ffn_gate, x.x, x.quantized, s.gate, n_rows},
                   {w.ffn_up, x.x, x.quantized, s.up, n_rows},
                   s.gated.x});
  quantize_and_project(ops, s.gated, n_rows, w.ffn_down, s.projected);
}

// Layers first..last-1. In the model's last one, rows that nobody wants go no further than their keys
// and values; after it, s.x holds the hidden states of the batch's last n_wanted rows at their places.
template <ForwardOps Ops>
void layers(Ops& ops, const Config& c, const Weights& w, const Batch& b, State& s,
            std::size_t first, std::size_t last) {
  const LayerWeights* next = &w.layers[first];
  norm(ops, c, s.x, next->attn_norm, s.normed, b.n_rows(), attention_reads(*next));
  for (std::size_t l = first; l < last; ++l) {
    const LayerWeights& layer = *next;
    const int n = l + 1 == w.layers.size() ? b.n_wanted : b.n_rows();
    float* x = s.x + std::ptrdiff_t{b.n_rows() - n} * c.d_model;
    attention(ops, c, layer, b, s, l, n);
    add_normed_and_norm(ops, c, s, x, layer.post_attention_norm, layer.ffn_norm, n,
                        feed_forward_reads(layer));
    feed_forward(ops, layer, n, s);
    if (l + 1 == last) return add_normed(ops, c, s, x, layer.post_ffw_norm, n);
    next = &w.layers[l + 1];
    add_normed_and_norm(ops, c, s, x, layer.post_ffw_norm, next->attn_norm, n,
                        attention_reads(*next));
  }
}

// s.x = embeddings of the batch's tokens, scaled by f32(sqrt(d_model)).
template <ForwardOps Ops>
void embed(Ops& ops, const Config& c, const Weights& w, const Batch& b, State& s) {
  const auto scale = static_cast<float>(std::sqrt(static_cast<double>(c.d_model)));
  ops.embedding({w.token_embd, b.tokens.data(), s.x, b.n_rows(), scale});
}

// Logits [n_rows, n_vocab] of hidden rows [n_rows, d_model] as the last layer left them.
template <ForwardOps Ops>
void head(Ops& ops, const Config& c, const Weights& w, const float* hidden, int n_rows, State& s,
          float* logits) {
  norm(ops, c, hidden, w.output_norm, s.normed, n_rows, Reads(w.output));
  project(ops, s.normed, n_rows, {{w.output, logits}});
}

}  // namespace engine
