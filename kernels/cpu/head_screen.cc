// What the screened head does beside the pass over the matrix: prepares the columns, in double, and collects
// the best logits.
#include "kernels/cpu/head_screen.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cpu/leaf.h"
#include "kernels/cpu/pool.h"

namespace engine::cpu {
namespace {

constexpr int kDirections = op::kScreenDirections;

// Hands out the arrays of columns; null: only counts their bytes.
class Scratch {
 public:
  explicit Scratch(std::byte* memory) : memory_(memory) {}
  template <class T>
  T* take(int n) {
    std::byte* const at = memory_ == nullptr ? nullptr : memory_ + n_bytes_;
    n_bytes_ += (static_cast<std::size_t>(n) * sizeof(T) + 63) / 64 * 64;
    return reinterpret_cast<T*>(at);
  }
  std::size_t n_bytes() const { return n_bytes_; }

 private:
  std::byte* memory_;
  std::size_t n_bytes_ = 0;
};

struct ColumnArrays {
  double* x;        // [n_in] dequantised
  double* residue;  // [n_in] z
  float *scale, *shift, *slack;
  std::int32_t *quads, *low_quads;
};

ColumnArrays take_arrays(Scratch& scratch, int n_in) {
  const int n = n_in / op::kBlock;
  ColumnArrays arrays;
  arrays.x = scratch.take<double>(n_in);
  arrays.residue = scratch.take<double>(n_in);
  arrays.scale = scratch.take<float>(n);
  arrays.shift = scratch.take<float>(n);
  arrays.slack = scratch.take<float>(n);
  arrays.quads = scratch.take<std::int32_t>(8 * n);
  arrays.low_quads = scratch.take<std::int32_t>(8 * n);
  return arrays;
}

double norm(const double* x, int n) {
  double sum = 0;
  for (int i = 0; i < n; ++i) sum += x[i] * x[i];
  return std::sqrt(sum);
}

float rounded_up(double value) {
  return std::nextafter(static_cast<float>(value), std::numeric_limits<float>::infinity());
}

class ColumnMaker {
 public:
  ColumnMaker(const op::HeadScreenArgs& a, int t, Scratch& scratch)
      : n_blocks_(a.w.n_in / op::kBlock),
        x_(row(a.x, t)),
        table_(a.table),
        is_precise_(a.n_t <= kMostPreciseColumns),
        arrays_(take_arrays(scratch, a.w.n_in)) {}

  // False if nothing could be ruled out safely.
  bool make(ScreenColumn& column) {
    double size = 0;
    for (int b = 0; b < n_blocks_; ++b) {
      if (!std::isfinite(x_.scale[b])) return false;
      size += dequantise(b);
    }
    if (!(size < op::kMostScreenNorm)) return false;
    column = {.scale = arrays_.scale,
              .shift = arrays_.shift,
              .slack = arrays_.slack,
              .quads = arrays_.quads,
              .low_quads = arrays_.low_quads};
    project(column);
    for (int b = 0; b < n_blocks_; ++b) is_precise_ ? keep_block(b) : coarsen_block(b);
    return true;
  }

 private:
  op::QuantizedRows row(const op::QuantizedRows& rows, int t) const {
    const std::ptrdiff_t b = std::ptrdiff_t{t} * n_blocks_;
    return {rows.q + b * op::kBlock, rows.scale + b, rows.sum16 + 2 * b, rows.product16 + 2 * b};
  }
  // Element i of block b.
  static int at(int b, int i) { return b * op::kBlock + op::quad_position(i); }

  // Returns the norm of block b.
  double dequantise(int b) {
    for (int i = 0; i < op::kBlock; ++i)
      arrays_.x[b * op::kBlock + i] = static_cast<double>(x_.scale[b]) * x_.q[at(b, i)];
    return norm(arrays_.x + b * op::kBlock, op::kBlock);
  }

  double direction(int k, int b, int i) const {
    const op::ScreenDirections& v = table_.directions;
    const int block = k * n_blocks_ + b;
    return static_cast<double>(v.scale[block]) * v.q[block * op::kBlock + i];
  }

  // c_k, as integers, and z.
  void project(ScreenColumn& column) {
    const int n_in = n_blocks_ * op::kBlock;
    double c[kDirections] = {}, most = 0;
    for (int k = 0; k < kDirections; ++k) {
      for (int i = 0; i < n_in; ++i)
        c[k] += direction(k, i / op::kBlock, i % op::kBlock) * arrays_.x[i];
      most = std::max(most, std::abs(c[k]));
    }
    // Any coefficients keep the bound; those that would underflow are not worth it.
    column.unit = most > 1e-25 ? static_cast<float>(most / op::kQuantMax) : 0.0f;
    std::int32_t integers[kDirections] = {}, sum = 0, sum_of_sizes = 0;
    for (int k = 0; k < kDirections; ++k) {
      if (column.unit > 0)
        integers[k] =
            static_cast<std::int32_t>(std::lrint(c[k] / static_cast<double>(column.unit)));
      coefficients_[k] = static_cast<double>(column.unit) * integers[k];
      sum += integers[k];
      sum_of_sizes += std::abs(integers[k]);
    }
    const auto pair = [&](int low, int high) {
      return static_cast<std::int32_t>(static_cast<std::uint32_t>(integers[high]) << 16 |
                                       (static_cast<std::uint32_t>(integers[low]) & 0xFFFFu));
    };
    column.even = pair(0, 2);
    column.odd = pair(1, 3);
    column.minus_offset = -128 * sum;
    column.steps_off = op::kStepsOff * column.unit * static_cast<float>(sum_of_sizes);
    std::copy_n(arrays_.x, n_in, arrays_.residue);
    for (int k = 0; k < kDirections; ++k)
      for (int i = 0; i < n_in; ++i)
        arrays_.residue[i] -= coefficients_[k] * direction(k, i / op::kBlock, i % op::kBlock);
  }

  // y = x
  void keep_block(int b) {
    std::int8_t high[op::kBlock], low[op::kBlock];
    for (int i = 0; i < op::kBlock; ++i) {
      const int q = x_.q[at(b, i)];
      high[i] = static_cast<std::int8_t>((q + 128) >> 8);
      low[i] = static_cast<std::int8_t>(q - 256 * high[i]);
    }
    std::memcpy(arrays_.quads + 8 * b, high, sizeof high);
    std::memcpy(arrays_.low_quads + 8 * b, low, sizeof low);
    finish_block(b, x_.scale[b], x_.sum16[2 * b] + x_.sum16[2 * b + 1], 0);
  }

  // y on a grid of 8 bits
  void coarsen_block(int b) {
    const double* x = arrays_.x + b * op::kBlock;
    double amax = 0, off = 0;
    for (int i = 0; i < op::kBlock; ++i) amax = std::max(amax, std::abs(x[i]));
    const auto step = static_cast<float>(amax / 127);
    std::int32_t sum = 0;
    std::int8_t y[op::kBlock] = {};
    for (int i = 0; i < op::kBlock; ++i) {
      if (step > 0)
        y[i] = static_cast<std::int8_t>(
            std::clamp(std::lrint(x[i] / static_cast<double>(step)), -127L, 127L));
      const double difference = x[i] - static_cast<double>(step) * y[i];
      off += difference * difference;
      sum += y[i];
    }
    std::memcpy(arrays_.quads + 8 * b, y, sizeof y);
    finish_block(b, step, sum, std::sqrt(off));
  }

  // y is `step` times integers that add up to `sum`, and `off` away from x.
  void finish_block(int b, float step, std::int32_t sum, double off) {
    arrays_.scale[b] = 16 * step;
    arrays_.shift[b] = static_cast<float>(-120.5 * static_cast<double>(step) * sum);
    double directions = 0;
    for (int k = 0; k < kDirections; ++k) {
      double v[op::kBlock];
      for (int i = 0; i < op::kBlock; ++i) v[i] = direction(k, b, i);
      directions += std::abs(coefficients_[k]) * norm(v, op::kBlock);
    }
    const int at = b * op::kBlock;
    const double slack = norm(arrays_.residue + at, op::kBlock) +
                         static_cast<double>(op::kHighShare) * off +
                         op::rounding_share(n_blocks_) * norm(arrays_.x + at, op::kBlock) +
                         op::projection_rounding_share(n_blocks_) * directions;
    arrays_.slack[b] = rounded_up(slack * op::kSlackRounding);
  }

  int n_blocks_;
  op::QuantizedRows x_;
  const op::HeadScreenTable& table_;
  bool is_precise_;
  ColumnArrays arrays_;
  double coefficients_[kDirections] = {};
};

}  // namespace

ScreenFound::ScreenFound() : threshold(-std::numeric_limits<float>::infinity()) {}

void ScreenFound::offer(const op::HeadScreenArgs& a, std::span<const int> rows,
                        const float* logits) {
  const int n_rows = static_cast<int>(rows.size());
  const int n = n_evaluated_.fetch_add(n_rows, std::memory_order_relaxed) + n_rows;
  if (n > a.most_evaluated || std::any_of(logits, logits + n_rows, op::is_bad_logit))
    given_up = true;
  for (int i = 0; i < n_rows; ++i)
    if (rows[static_cast<std::size_t>(i)] < a.n_ids &&
        logits[i] >= threshold.load(std::memory_order_relaxed))
      insert(a.k, op::logit_rank(logits[i], rows[static_cast<std::size_t>(i)]));
}

void ScreenFound::insert(int k, std::uint64_t rank) {
  const std::lock_guard lock(mutex_);
  if (n_ == k && rank < ranks_[k - 1]) return;
  int at = n_ < k ? n_++ : k - 1;
  for (; at > 0 && ranks_[at - 1] < rank; --at) ranks_[at] = ranks_[at - 1];
  ranks_[at] = rank;
  if (n_ == k) threshold = op::logit_of_rank(ranks_[k - 1]);
}

bool ScreenJob::all_given_up() const {
  return std::all_of(found, found + a.n_t, [](const ScreenFound& f) { return f.given_up.load(); });
}

void screen_bounds(const op::ScreenBoundsArgs& a, Pool& pool) {
  pool.parallel_for(n_groups(a.w), 1,
                    [&](int begin, int end) { pool.leaf().screen_bounds(a, begin, end); });
}

void screen_projections(const op::ScreenProjectionsArgs& a, Pool& pool) {
  for (int block = 0; block < kDirections * (a.w.n_in / op::kBlock); ++block) {
    const float* const v = a.directions + block * op::kBlock;
    float amax = 0;
    for (int i = 0; i < op::kBlock; ++i) amax = std::max(amax, std::abs(v[i]));
    const float scale = amax > 1e-30f ? amax / 127 : 0;
    int sum = 0;
    for (int i = 0; i < op::kBlock; ++i) {
      const int q = scale > 0 ? static_cast<int>(std::lrint(v[i] / scale)) : 0;
      a.rounded.q[block * op::kBlock + i] = static_cast<std::int8_t>(q);
      sum += q;
    }
    a.rounded.scale[block] = scale;
    a.rounded.centre[block] = -7.5f * static_cast<float>(sum);
  }
  pool.parallel_for(n_groups(a.w), 1,
                    [&](int begin, int end) { pool.leaf().screen_projections(a, begin, end); });
}

std::size_t head_screen_scratch_bytes(int n_in, int n_t) {
  Scratch counter(nullptr);
  for (int t = 0; t < n_t; ++t) take_arrays(counter, n_in);
  return counter.n_bytes();
}

void head_screen(const op::HeadScreenArgs& a, Pool& pool) {
  // 1 columns
  Scratch scratch(a.scratch);
  ScreenColumn columns[op::kMostScreenRows];
  ScreenFound found[op::kMostScreenRows];
  bool is_possible = true;
  for (int t = 0; t < a.n_t; ++t)
    is_possible = ColumnMaker(a, t, scratch).make(columns[t]) && is_possible;
  // 2 the pass
  if (is_possible) {
    const ScreenJob job = {a, columns, found};
    pool.parallel_for(n_groups(a.w), 1,
                      [&](int begin, int end) { pool.leaf().head_screen(job, begin, end); });
  }
  // 3 results
  *a.n_evaluated = found[0].n_evaluated();
  for (int t = 0; t < a.n_t; ++t) {
    a.is_known[t] = is_possible && !found[t].given_up ? 1 : 0;
    if (a.is_known[t] == 0) continue;
    for (int i = 0; i < a.k; ++i) {
      a.ids[t * a.k + i] = op::id_of_rank(found[t].rank(i));
      a.values[t * a.k + i] = op::logit_of_rank(found[t].rank(i));
    }
  }
}

}  // namespace engine::cpu
