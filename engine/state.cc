#include "engine/state.h"

#include <cmath>

#include "engine/placer.h"

namespace engine {
namespace {

// Arrays of so many rows.
struct RowPlacer {
  Placer& placer;
  std::size_t n_rows;

  template <class T>
  void place(T*& array, int width) {
    array = placer.take<T>(n_rows * static_cast<std::size_t>(width));
  }
  void place(Activations& a, int width) {
    a.width = width;
    place(a.x, width);
    place(a.quantized.q, width);
    place(a.quantized.scale, width / op::kBlock);
    place(a.quantized.sum16, width / op::kSubSum);
    place(a.quantized.product16, width / op::kSubSum);
  }
  void place(RopeTable& table, int half) {
    place(table.cos, half);
    place(table.sin, half);
  }
};

std::vector<double> frequencies(double base, int head_dim) {
  std::vector<double> frequency;
  for (int i = 0; i < head_dim / 2; ++i) frequency.push_back(std::pow(base, -2.0 * i / head_dim));
  return frequency;
}

}  // namespace

State place_state(const Config& c, int n_rows, Placer& placer) {
  State s;
  RowPlacer rows = {placer, static_cast<std::size_t>(n_rows)};
  rows.place(s.x, c.d_model);
  rows.place(s.normed, c.d_model);
  rows.place(s.q, c.n_heads * c.head_dim);
  rows.place(s.k, c.n_kv_heads * c.head_dim);
  rows.place(s.v, c.n_kv_heads * c.head_dim);
  rows.place(s.attended, c.n_heads * c.head_dim);
  rows.place(s.gate, c.d_ff);
  rows.place(s.up, c.d_ff);
  rows.place(s.gated, c.d_ff);
  rows.place(s.projected, c.d_model);
  rows.place(s.rope_global, c.head_dim / 2);
  rows.place(s.rope_local, c.head_dim / 2);
  return s;
}

RopeAngles::RopeAngles(const Config& c)
    : global_{frequencies(c.rope_base_global, c.head_dim), c.rope_factor_global},
      local_{frequencies(c.rope_base_local, c.head_dim), 1.0} {}

void RopeAngles::Base::fill(int position, std::size_t row, const RopeTable& table) const {
  const std::size_t half = frequency.size();
  for (std::size_t i = 0; i < half; ++i) {
    const double angle = position * frequency[i] / factor;
    table.cos[row * half + i] = static_cast<float>(std::cos(angle));
    table.sin[row * half + i] = static_cast<float>(std::sin(angle));
  }
}

void RopeAngles::fill(std::span<const op::KvRow> rows, int begin, int end, const RopeTable& global,
                      const RopeTable& local) const {
  for (int t = begin; t < end; ++t) {
    const auto row = static_cast<std::size_t>(t);
    global_.fill(rows[row].pos, row, global);
    local_.fill(rows[row].pos, row, local);
  }
}

Status HostState::reserve(const Config& config, int n_rows) {
  if (n_rows <= n_rows_) return {};
  n_rows_ = 0;
  memory_ = {};  // before more is asked for
  Placer counter(nullptr);
  place_state(config, n_rows, counter);
  ENGINE_ASSIGN(memory_, HugeBuffer::create(counter.n_bytes()));
  n_rows_ = n_rows;
  Placer placer(memory_.data());
  state_ = place_state(config, n_rows, placer);
  return {};
}

}  // namespace engine
