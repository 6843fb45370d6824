#include "engine/state.h"

#include <cmath>

namespace engine {
namespace {

void resize(Activations& a, std::size_t n_rows, int width) {
  const std::size_t n = n_rows * static_cast<std::size_t>(width);
  a.width = width;
  a.x.resize(n);
  a.q.resize(n);
  a.scale.resize(n / op::kBlock);
  a.sum16.resize(n / op::kSubSum);
  a.product16.resize(n / op::kSubSum);
}

void fill(RopeTable& table, double base, double factor, int head_dim,
          std::span<const op::KvRow> rows) {
  const std::size_t half = static_cast<std::size_t>(head_dim) / 2;
  table.cos.resize(rows.size() * half);
  table.sin.resize(rows.size() * half);
  for (std::size_t i = 0; i < half; ++i) {
    const double frequency = std::pow(base, -2.0 * static_cast<double>(i) / head_dim);
    for (std::size_t t = 0; t < rows.size(); ++t) {
      const double angle = rows[t].pos * frequency / factor;
      table.cos[t * half + i] = static_cast<float>(std::cos(angle));
      table.sin[t * half + i] = static_cast<float>(std::sin(angle));
    }
  }
}

}  // namespace

void State::resize(const Config& c, int rows) {
  const auto n_rows = static_cast<std::size_t>(rows);
  const auto floats = [&](int width) { return n_rows * static_cast<std::size_t>(width); };
  x.resize(floats(c.d_model));
  engine::resize(normed, n_rows, c.d_model);
  q.resize(floats(c.n_heads * c.head_dim));
  k.resize(floats(c.n_kv_heads * c.head_dim));
  v.resize(floats(c.n_kv_heads * c.head_dim));
  engine::resize(attended, n_rows, c.n_heads * c.head_dim);
  gate.resize(floats(c.d_ff));
  up.resize(floats(c.d_ff));
  engine::resize(gated, n_rows, c.d_ff);
  projected.resize(floats(c.d_model));
}

void State::set_positions(const Config& c, std::span<const op::KvRow> rows) {
  fill(rope_global, c.rope_base_global, c.rope_factor_global, c.head_dim, rows);
  fill(rope_local, c.rope_base_local, 1.0, c.head_dim, rows);
}

}  // namespace engine
