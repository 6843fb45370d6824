#include "kernels/op/rope.h"

#include <cstddef>

namespace engine::ref {
namespace {

// Turns the pairs (i, i + n_pairs) of one head.
void rotate(float* x, const float* cos, const float* sin, int n_pairs, double scale) {
  for (int i = 0; i < n_pairs; ++i) {
    const double lo = static_cast<double>(x[i]), hi = static_cast<double>(x[i + n_pairs]);
    const double c = static_cast<double>(cos[i]), s = static_cast<double>(sin[i]);
    x[i] = static_cast<float>((lo * c - hi * s) * scale);
    x[i + n_pairs] = static_cast<float>((hi * c + lo * s) * scale);
  }
}

}  // namespace

void rope(const op::RopeArgs& a) {
  const int n_pairs = a.d / 2;
  for (int t = 0; t < a.n_t; ++t) {
    const std::ptrdiff_t table_row = std::ptrdiff_t{t} * n_pairs;
    for (int h = 0; h < a.n_h; ++h)
      rotate(a.x + (std::ptrdiff_t{t} * a.n_h + h) * a.d, a.cos + table_row, a.sin + table_row,
             n_pairs, static_cast<double>(a.scale));
  }
}

}  // namespace engine::ref
