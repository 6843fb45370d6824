#include "kernels/op/head_screen.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "kernels/ref/weights.h"

namespace engine::ref {
namespace {

using Vector = std::vector<double>;

Vector dequantised(const op::QuantizedRows& rows, int t, int n_in) {
  Vector x;
  for (std::ptrdiff_t i = 0; i < n_in; ++i) {
    const std::ptrdiff_t first = std::ptrdiff_t{t} * n_in;
    const std::ptrdiff_t at = first + op::quad_position(static_cast<int>(i));
    x.push_back(static_cast<double>(rows.scale[(first + i) / op::kBlock]) * rows.q[at]);
  }
  return x;
}

double dot(const double* a, const double* b, int n) {
  double sum = 0;
  for (int i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}
double norm(const double* a, int n) { return std::sqrt(dot(a, a, n)); }

// A block of weights in two parts, in units of its scale.
struct Block {
  double d, high[op::kBlock], low[op::kBlock];
};

std::vector<Block> blocks_of_row(const op::Matrix& w, int row) {
  std::vector<Block> blocks;
  const int n_blocks = w.n_in / op::kBlock;
  const auto* from =
      reinterpret_cast<const gguf::BlockQ8_0*>(w.data) + std::ptrdiff_t{row} * n_blocks;
  for (int b = 0; b < n_blocks; ++b) {
    Block block = {.d = static_cast<double>(gguf::f32_from_f16(from[b].d))};
    for (int i = 0; i < op::kBlock; ++i) {
      const int u = from[b].qs[i] + 128;
      block.high[i] = u / 16 * 16 - 120.5;
      block.low[i] = u % 16 - 7.5;
    }
    blocks.push_back(block);
  }
  return blocks;
}

double upper_bound(const std::vector<Block>& w, const Vector& x, const std::vector<Vector>& v) {
  // 1 coefficients and what they leave of x
  Vector z = x;
  double bound = 0;
  for (const Vector& direction : v) {
    const double c = dot(direction.data(), x.data(), static_cast<int>(x.size()));
    for (std::size_t i = 0; i < x.size(); ++i) z[i] -= c * direction[i];
    for (std::size_t b = 0; b < w.size(); ++b)
      bound += c * w[b].d * dot(w[b].low, direction.data() + b * op::kBlock, op::kBlock);
  }
  // 2 the pass, with y = x
  for (std::size_t b = 0; b < w.size(); ++b)
    bound += w[b].d * dot(w[b].high, x.data() + b * op::kBlock, op::kBlock);
  // 3 the rest
  double r = 0, sizes = 0;
  for (std::size_t b = 0; b < w.size(); ++b) {
    r = std::max({r, norm(w[b].low, op::kBlock),
                  norm(w[b].high, op::kBlock) / static_cast<double>(op::kHighShare)});
    sizes += std::abs(w[b].d) * norm(z.data() + b * op::kBlock, op::kBlock);
  }
  return bound + r * sizes;
}

}  // namespace

void head_screen(const op::HeadScreenArgs& a) {
  std::vector<Vector> v;
  for (int k = 0; k < op::kScreenDirections; ++k) {
    Vector direction;
    for (int i = k * a.w.n_in; i < (k + 1) * a.w.n_in; ++i)
      direction.push_back(static_cast<double>(a.table.directions.scale[i / op::kBlock]) *
                          a.table.directions.q[i]);
    v.push_back(direction);
  }
  for (int t = 0; t < a.n_t; ++t) {
    const Vector x = dequantised(a.x, t, a.w.n_in);
    std::vector<std::pair<double, int>> logits;
    for (int row = 0; row < a.w.n_out; ++row) {
      const std::vector<double> w = exact_row(a.w, row);
      if (row < a.n_ids) logits.emplace_back(dot(w.data(), x.data(), a.w.n_in), -row);
      a.upper[std::ptrdiff_t{t} * a.w.n_out + row] =
          static_cast<float>(upper_bound(blocks_of_row(a.w, row), x, v));
    }
    std::partial_sort(logits.begin(), logits.begin() + a.k, logits.end(), std::greater<>());
    for (int i = 0; i < a.k; ++i) {
      const auto& [logit, minus_row] = logits[static_cast<std::size_t>(i)];
      a.ids[std::ptrdiff_t{t} * a.k + i] = -minus_row;
      a.values[std::ptrdiff_t{t} * a.k + i] = static_cast<float>(logit);
    }
    a.is_known[t] = 1;
  }
  *a.n_evaluated = a.w.n_out;
}

}  // namespace engine::ref
