#include "engine/state.h"

#include <cmath>

namespace engine {
namespace {

// A shorter vector would be filled with zeros again when the next prompt needs it longer.
template <class T>
void grow(std::vector<T>& v, std::size_t n) {
  if (v.size() < n) v.resize(n);
}

void grow(Activations& a, std::size_t n_rows, int width) {
  const std::size_t n = n_rows * static_cast<std::size_t>(width);
  a.width = width;
  grow(a.x, n);
  grow(a.q, n);
  grow(a.scale, n / op::kBlock);
  grow(a.sum16, n / op::kSubSum);
  grow(a.product16, n / op::kSubSum);
}

void reserve(RopeTable& table, double base, int head_dim, std::size_t n_rows) {
  const std::size_t half = static_cast<std::size_t>(head_dim) / 2;
  for (std::size_t i = table.frequency.size(); i < half; ++i)
    table.frequency.push_back(std::pow(base, -2.0 * static_cast<double>(i) / head_dim));
  grow(table.cos, n_rows * half);
  grow(table.sin, n_rows * half);
}

void fill(RopeTable& table, double factor, int position, std::size_t row) {
  const std::size_t half = table.frequency.size();
  for (std::size_t i = 0; i < half; ++i) {
    const double angle = position * table.frequency[i] / factor;
    table.cos[row * half + i] = static_cast<float>(std::cos(angle));
    table.sin[row * half + i] = static_cast<float>(std::sin(angle));
  }
}

}  // namespace

void State::reserve(const Config& c, int rows) {
  const auto n_rows = static_cast<std::size_t>(rows);
  const auto floats = [&](int width) { return n_rows * static_cast<std::size_t>(width); };
  grow(x, floats(c.d_model));
  grow(normed, n_rows, c.d_model);
  grow(q, floats(c.n_heads * c.head_dim));
  grow(k, floats(c.n_kv_heads * c.head_dim));
  grow(v, floats(c.n_kv_heads * c.head_dim));
  grow(attended, n_rows, c.n_heads * c.head_dim);
  grow(gate, floats(c.d_ff));
  grow(up, floats(c.d_ff));
  grow(gated, n_rows, c.d_ff);
  grow(projected, floats(c.d_model));
  engine::reserve(rope_global, c.rope_base_global, c.head_dim, n_rows);
  engine::reserve(rope_local, c.rope_base_local, c.head_dim, n_rows);
}

void State::set_positions(const Config& c, std::span<const op::KvRow> rows, int begin, int end) {
  for (int t = begin; t < end; ++t) {
    const auto row = static_cast<std::size_t>(t);
    fill(rope_global, c.rope_factor_global, rows[row].pos, row);
    fill(rope_local, 1.0, rows[row].pos, row);
  }
}

}  // namespace engine
