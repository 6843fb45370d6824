// The screened head over split planes. vector: rows by lanes; one work item: a group of 16 rows, all columns.
// A group's high nibbles stay in the first-level cache while its columns and its survivors use them.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <mutex>
#include <span>

#include "kernels/cpu/matmul_planes.h"
#include "kernels/op/convert.h"
#include "kernels/op/head_screen.h"

namespace engine::cpu {

// With so few columns, y has 16 bits, all that x has, and fewer rows survive: memory leaves the time for it.
inline constexpr int kMostPreciseColumns = 1;

// A column of activations, prepared for the pass and for single rows.
struct ScreenColumn {
  // Of each block, [n_blocks]: the pass's term is scale * sum(h * y) + shift; R is multiplied with slack.
  const float *scale, *shift, *slack;
  const std::int32_t *quads,
      *low_quads;  // [n_blocks, 8] y = 256 * quads + low_quads, four bytes each
  // c_k: those of projections 0 and 2, and of 1 and 3, as pairs of 16-bit integers, in units of `unit`.
  std::int32_t even, odd;
  std::int32_t minus_offset;  // -128 * sum of these integers
  float unit;
  float steps_off;  // steps that the projections may be off by
};

// What threads have found so far of one column. Not inline, because leaves must not share code.
class ScreenFound {
 public:
  // The k-th best logit, minus infinity while there are less.
  alignas(128) std::atomic<float> threshold;  // read much more often than the rest is written
  std::atomic<bool> given_up = false;         // then the result is of no use

  // The logits of rows.
  void offer(const op::HeadScreenArgs& a, std::span<const int> rows, const float* logits);
  int n_evaluated() const { return n_evaluated_; }
  std::uint64_t rank(int i) const { return ranks_[i]; }  // 0: the best

  ScreenFound();

 private:
  void insert(int k, std::uint64_t rank);

  alignas(128) std::atomic<int> n_evaluated_ = 0;
  std::mutex mutex_;
  int n_ = 0;
  std::uint64_t ranks_[op::kMaxTopLogits];  // n of them
};

struct ScreenJob {
  op::HeadScreenArgs a;
  const ScreenColumn* columns;  // [n_t]
  ScreenFound* found;           // [n_t]
  bool all_given_up() const;
};

// Vectors of rows that share what is loaded of columns or directions.
template <class S>
inline constexpr int kScreenVectors = std::min(2, kGroup / S::kLanes);

// The nibbles of a word, as the 16-bit halves of four words.
template <class S, class Fn>
[[gnu::always_inline]] inline void for_nibble_halves(typename S::I word, const Fn& fn) {
  const typename S::I mask = S::seti(0x000F000F);
  fn(S::andi(word, mask));
  fn(S::andi(S::template shr<8>(word), mask));
  fn(S::andi(S::template shr<4>(word), mask));
  fn(S::andi(S::template shr<12>(word), mask));
}

// --- tables ---------------------------------------------------------------------------------------

// R of the rows of vector v, before it is rounded; NaN where a scale is not finite.
template <class S>
typename S::F row_bound(const Group<Q8_0SplitPlanes>& group, int n_blocks, int v) {
  using I = typename S::I;
  I low_most = S::seti(0), high_most = S::seti(0);  // 4 ||.||^2
  typename S::F zero = S::set(0.0f);
  for (int b = 0; b < n_blocks; ++b) {
    if (v == 0) prefetch_ahead(group, n_blocks, b);
    I low[4], low_sum = S::seti(0), high_sum = S::seti(0);
    S::load_words(group.row_low(S::kLanes * v) + b * kRowLowBytes,
                  static_cast<std::ptrdiff_t>(group.row_low_bytes), low);
    for (int m = 0; m < 4; ++m) {
      for_nibble_halves<S>(low[m], [&](I l) {
        const I twice = S::subi16(S::template shl<1>(l), S::seti(0x000F000F));  // 2 l - 15
        low_sum = S::dot2(low_sum, twice, twice);
      });
      const I high = S::loadi(group.block_quants(b) + 64 * m + 4 * S::kLanes * v);
      for_nibble_halves<S>(high, [&](I h) {
        const I twice = S::subi16(S::template shl<5>(h), S::seti(0x00F100F1));  // 32 h - 241
        high_sum = S::dot2(high_sum, twice, twice);
      });
    }
    low_most = S::maxi(low_most, low_sum);
    high_most = S::maxi(high_most, high_sum);
    zero = S::fma(load_scales<S, Q8_0SplitPlanes>(group, b, v).d, S::set(0.0f), zero);
  }
  const float share = 1 / (op::kHighShare * op::kHighShare);
  return S::add(S::max(S::to_float(low_most), S::mul(S::to_float(high_most), S::set(share))), zero);
}

template <class S>
void screen_bounds_groups(const op::ScreenBoundsArgs& a, int begin, int end) {
  for (int g = begin; g < end; ++g) {
    const Group<Q8_0SplitPlanes> group(a.w, g);
    float squares[kGroup];
    for (int v = 0; v < kGroup / S::kLanes; ++v)
      S::store(squares + S::kLanes * v, row_bound<S>(group, a.w.n_in / op::kBlock, v));
    // Up by more than fp16 and the square root round down.
    for (int r = 0; r < kGroup; ++r)
      a.bounds[g * kGroup + r] =
          op::f16_from_f32(0.5f * std::sqrt(squares[r]) * (1.0f + 0x1.1p-10f));
  }
}

// p_k of the rows of kScreenVectors vectors from v on.
template <class S>
void row_projections(const op::ScreenProjectionsArgs& a, const Group<Q8_0SplitPlanes>& group, int v,
                     typename S::F (&all)[kGroup / S::kLanes][op::kScreenDirections]) {
  using I = typename S::I;
  constexpr int n = op::kScreenDirections, kVectors = kScreenVectors<S>;
  const int n_in = a.w.n_in, n_blocks = n_in / op::kBlock;
  const I mask = S::seti(0x0F0F0F0F);
  typename S::F p[kVectors][n];
  for (auto& vector : p)
    for (auto& sum : vector) sum = S::set(0.0f);
  for (int b = 0; b < n_blocks; ++b) {
    if (v == 0) {
      prefetch_low(group, b);
      prefetch<kFirstLevel>(group.block_scales(b), Group<Q8_0SplitPlanes>::bytes(n_blocks),
                            Q8_0SplitPlanes::kScaleBytes);
    }
    I low[kVectors][4], sums[kVectors][n];
    for (int i = 0; i < kVectors; ++i) {
      S::load_words(group.row_low(S::kLanes * (v + i)) + b * kRowLowBytes,
                    static_cast<std::ptrdiff_t>(group.row_low_bytes), low[i]);
      for (int k = 0; k < n; ++k) sums[i][k] = S::seti(0);
    }
#pragma GCC unroll 4
    for (int m = 0; m < 4; ++m)
#pragma GCC unroll 4
      for (int k = 0; k < n; ++k) {
        std::int32_t quads[2];
        std::memcpy(quads, a.rounded.q + k * n_in + b * op::kBlock + 8 * m, sizeof quads);
        const I even = S::seti(quads[0]), odd = S::seti(quads[1]);
        for (int i = 0; i < kVectors; ++i) {
          sums[i][k] = S::nibble_dot(sums[i][k], S::andi(low[i][m], mask), even);
          sums[i][k] = S::nibble_dot(sums[i][k], S::andi(S::template shr<4>(low[i][m]), mask), odd);
        }
      }
    for (int i = 0; i < kVectors; ++i) {
      const typename S::F d = load_scales<S, Q8_0SplitPlanes>(group, b, v + i).d;
      for (int k = 0; k < n; ++k) {
        const int at = k * n_blocks + b;
        const typename S::F sum =
            S::add(S::to_float(S::nibble_sums(sums[i][k])), S::set(a.rounded.centre[at]));
        p[i][k] = S::fma(S::mul(sum, S::set(a.rounded.scale[at])), d, p[i][k]);
      }
    }
  }
  for (int i = 0; i < kVectors; ++i)
    for (int k = 0; k < n; ++k) all[v + i][k] = p[i][k];
}

template <class S>
void screen_projections_groups(const op::ScreenProjectionsArgs& a, int begin, int end) {
  using F = typename S::F;
  using I = typename S::I;
  constexpr int n = op::kScreenDirections, kVectors = kGroup / S::kLanes;
  // Adding this rounds to an integer, 128 more of which are in the sum's low byte.
  const F rounding = S::set(0x1.8p+23f + 128);
  for (int g = begin; g < end; ++g) {
    const Group<Q8_0SplitPlanes> group(a.w, g);
    F p[kVectors][n], most = S::set(0.0f);
    for (int v = 0; v < kVectors; v += kScreenVectors<S>) row_projections<S>(a, group, v, p);
    for (auto& vector : p)
      for (F& value : vector) {  // what is not finite is of a row that is always evaluated
        const I is_finite = S::less(S::abs(value), S::set(std::numeric_limits<float>::infinity()));
        value = S::select(is_finite, value, S::set(0.0f));
        most = S::max(most, S::abs(value));
      }
    // Where all are 0, to within the step.
    const float step =
        std::max(std::bit_cast<float>(S::reduce_max(S::bits(most))) / 127, 0x1p-120f);
    a.steps[g] = step;
    const F per_step = S::set(1 / step);
    float words[kGroup];
    for (int v = 0; v < kVectors; ++v) {
      const auto byte = [&](int k) {
        return S::andi(S::bits(S::fma(p[v][k], per_step, rounding)), S::seti(0xFF));
      };
      const I word = S::ori(S::ori(byte(0), S::template shl<8>(byte(1))),
                            S::ori(S::template shl<16>(byte(2)), S::template shl<24>(byte(3))));
      S::store(words + S::kLanes * v, S::from_bits(word));
    }
    std::memcpy(a.projections + g * kGroup * n, words, sizeof words);
  }
}

// --- the pass -------------------------------------------------------------------------------------

// Integer sums of h * y of block b, for kScreenVectors vectors of rows from v on and columns whose y has kBytes
// bytes.
template <class S, int kColumns, int kBytes>
[[gnu::always_inline]] inline void high_dots(const std::uint8_t* quants,
                                             const ScreenColumn* columns, int b, int v,
                                             typename S::I (&dots)[kScreenVectors<S>][kColumns]) {
  using I = typename S::I;
  constexpr int kVectors = kScreenVectors<S>;
  const I mask = S::seti(0x0F0F0F0F);
  I sums[kBytes][kVectors][kColumns];
  for (auto& byte : sums)
    for (auto& vector : byte)
      for (I& sum : vector) sum = S::seti(0);
#pragma GCC unroll 4
  for (int m = 0; m < 4; ++m) {
    I even[kVectors], odd[kVectors];
    for (int i = 0; i < kVectors; ++i) {
      const I pair = S::loadi(quants + 64 * m + 4 * S::kLanes * (v + i));
      even[i] = S::andi(pair, mask);
      odd[i] = S::andi(S::template shr<4>(pair), mask);
    }
#pragma GCC unroll 4
    for (int c = 0; c < kColumns; ++c)
#pragma GCC unroll 2
      for (int byte = 0; byte < kBytes; ++byte) {
        const std::int32_t* y =
            (byte == 0 ? columns[c].quads : columns[c].low_quads) + 8 * b + 2 * m;
        const I y_even = S::seti(y[0]), y_odd = S::seti(y[1]);
        for (int i = 0; i < kVectors; ++i) {
          I& sum = sums[byte][i][c];
          sum = S::nibble_dot(S::nibble_dot(sum, even[i], y_even), odd[i], y_odd);
        }
      }
  }
  for (int i = 0; i < kVectors; ++i)
    for (int c = 0; c < kColumns; ++c) {
      dots[i][c] = S::nibble_sums(sums[0][i][c]);
      if constexpr (kBytes == 2)
        dots[i][c] = S::addi(S::template shl<8>(dots[i][c]), S::nibble_sums(sums[1][i][c]));
    }
}

// Upper bounds of the logits of kScreenVectors vectors of rows from v on, for columns t0 .. t0 + kColumns - 1.
template <class S, int kColumns, int kBytes>
[[gnu::always_inline]] inline void upper_bounds(
    const ScreenJob& job, const Group<Q8_0SplitPlanes>& group, int g, int v, int t0,
    typename S::F (&upper)[kGroup / S::kLanes][kColumns]) {
  using F = typename S::F;
  using I = typename S::I;
  constexpr int kVectors = kScreenVectors<S>;
  const op::HeadScreenArgs& a = job.a;
  const ScreenColumn* columns = job.columns + t0;
  const int n_blocks = a.w.n_in / op::kBlock;
  F sum[kVectors][kColumns], slack[kVectors][kColumns];
  for (int i = 0; i < kVectors; ++i)
    for (int c = 0; c < kColumns; ++c) sum[i][c] = slack[i][c] = S::set(0.0f);
  for (int b = 0; b < n_blocks; ++b) {
    if (v == 0 && t0 == 0) prefetch_group(group, n_blocks, b);
    I dots[kVectors][kColumns];
    high_dots<S, kColumns, kBytes>(group.block_quants(b), columns, b, v, dots);
    for (int i = 0; i < kVectors; ++i) {
      const F d = load_scales<S, Q8_0SplitPlanes>(group, b, v + i).d, size = S::abs(d);
      for (int c = 0; c < kColumns; ++c) {
        const ScreenColumn& x = columns[c];
        const F term = S::fma(S::to_float(dots[i][c]), S::set(x.scale[b]), S::set(x.shift[b]));
        sum[i][c] = S::fma(d, term, sum[i][c]);
        slack[i][c] = S::fma(size, S::set(x.slack[b]), slack[i][c]);
      }
    }
  }
  const float step = a.table.steps[g];
  for (int i = 0; i < kVectors; ++i) {
    const int row = g * kGroup + S::kLanes * (v + i);
    const I word = S::loadi(a.table.projections + row * op::kScreenDirections);
    const I even = S::andi(word, S::seti(0x00FF00FF)), odd = S::template shr16<8>(word);
    const F bound = S::load_f16(a.table.bounds + row);
    for (int c = 0; c < kColumns; ++c) {
      const ScreenColumn& x = columns[c];
      I steps = S::dot2(S::seti(x.minus_offset), even, S::seti(x.even));
      steps = S::dot2(steps, odd, S::seti(x.odd));
      const F projected = S::mul(S::to_float(steps), S::set(step * x.unit));
      const F margin = S::fma(bound, slack[i][c], S::set(step * x.steps_off + op::kUnderflow));
      upper[v + i][c] = S::add(S::add(sum[i][c], projected), margin);
    }
  }
}

// Rows that could not be ruled out. When there are enough for a group, they are copied into one of their own
// and go through matmul()'s kernel; meanwhile memory fetches their low nibbles.
template <class S>
class Survivors {
 public:
  explicit Survivors(const ScreenJob& job) : job_(job), n_blocks_(job.a.w.n_in / op::kBlock) {}

  // Row r of group g, whose planes are at hand.
  void add(const Group<Q8_0SplitPlanes>& group, int g, int r) {
    if (n_ == kGroup) evaluate();
    const Group<Q8_0SplitPlanes> to(matrix(), 0);
    for (int b = 0; b < n_blocks_; ++b) {
      for (int m = 0; m < 4; ++m)
        std::memcpy(writable(to.block_quants(b)) + 64 * m + 4 * n_,
                    group.block_quants(b) + 64 * m + 4 * r, 4);
      std::memcpy(writable(to.block_scales(b)) + 2 * n_, group.block_scales(b) + 2 * r, 2);
    }
    low_[n_] = group.row_low(r);
    prefetch<kFirstLevel>(low_[n_], 0, group.row_low_bytes);
    rows_[n_++] = g * kGroup + r;
  }

  void evaluate() {
    if (n_ == 0) return;
    const Group<Q8_0SplitPlanes> to(matrix(), 0);
    for (int i = 0; i < n_; ++i) std::memcpy(writable(to.row_low(i)), low_[i], to.row_low_bytes);
    float logits[op::kMostScreenRows * kGroup];
    const op::MatmulArgs matmul = {matrix(), nullptr, job_.a.x, logits, job_.a.n_t};
    for_columns<S>(matmul.n_t, [&]<int kColumns>(int t) {
      group_columns<S, Q8_0SplitPlanes, kColumns>(matmul, 0, t);
    });
    for (int t = 0; t < matmul.n_t; ++t)
      job_.found[t].offer(job_.a, {rows_, static_cast<std::size_t>(n_)}, logits + t * kGroup);
    n_ = 0;
  }

 private:
  static std::uint8_t* writable(const std::uint8_t* at) { return const_cast<std::uint8_t*>(at); }
  op::Matrix matrix() const {
    return {gguf::Type::q8_0, op::Layout::split_planes, kGroup, job_.a.w.n_in,
            reinterpret_cast<const std::byte*>(planes_)};
  }

  static constexpr std::size_t kMostBlocks = op::kMostScreenInputs / op::kBlock;
  const ScreenJob& job_;
  const int n_blocks_;
  int n_ = 0;
  int rows_[kGroup];
  const std::uint8_t* low_[kGroup];
  alignas(64) std::uint8_t
      planes_[kMostBlocks * (Q8_0SplitPlanes::kQuantBytes + Q8_0SplitPlanes::kLowBytes +
                             Q8_0SplitPlanes::kScaleBytes) +
              64];
};

// Bit r is set if row r of the group may be among the best of columns t0 .. t0 + kColumns - 1.
template <class S, int kColumns>
std::uint32_t screen_columns(const ScreenJob& job, const Group<Q8_0SplitPlanes>& group, int g,
                             int t0) {
  using F = typename S::F;
  constexpr int kVectors = kGroup / S::kLanes;
  const op::HeadScreenArgs& a = job.a;
  std::uint32_t survives = 0;
  F upper[kVectors][kColumns];
  for (int v = 0; v < kVectors; v += kScreenVectors<S>)
    if constexpr (kColumns <= kMostPreciseColumns) {
      if (a.n_t <= kMostPreciseColumns)
        upper_bounds<S, kColumns, 2>(job, group, g, v, t0, upper);
      else
        upper_bounds<S, kColumns, 1>(job, group, g, v, t0, upper);
    } else {
      upper_bounds<S, kColumns, 1>(job, group, g, v, t0, upper);
    }
  const int n_rows = std::min(kGroup, a.w.n_out - g * kGroup);
  for (int c = 0; c < kColumns; ++c) {
    const int t = t0 + c;
    const float threshold = job.found[t].threshold.load(std::memory_order_relaxed);
    typename S::I below = S::seti(0);
    for (int v = 0; v < kVectors; ++v)
      below = S::addi(below, S::less(upper[v][c], S::set(threshold)));
    if (S::reduce_add(below) == -kGroup && a.upper == nullptr) continue;
    float bounds[kGroup];
    for (int v = 0; v < kVectors; ++v) S::store(bounds + S::kLanes * v, upper[v][c]);
    if (a.upper != nullptr)
      std::copy_n(bounds, n_rows,
                  a.upper + static_cast<std::ptrdiff_t>(t) * a.w.n_out + g * kGroup);
    for (int r = 0; r < n_rows; ++r)
      if (!(bounds[r] < threshold)) survives |= 1u << r;
  }
  return survives;
}

template <class S>
void head_screen_groups(const ScreenJob& job, int begin, int end) {
  Survivors<S> survivors(job);
  for (int g = begin; g < end; ++g) {
    if (job.all_given_up()) return;
    const Group<Q8_0SplitPlanes> group(job.a.w, g);
    std::uint32_t survives = 0;
    for_columns<S>(job.a.n_t, [&]<int kColumns>(int t) {
      survives |= screen_columns<S, kColumns>(job, group, g, t);
    });
    for (int r = 0; survives >> r != 0; ++r)
      if ((survives >> r & 1u) != 0) survivors.add(group, g, r);
  }
  survivors.evaluate();
}

}  // namespace engine::cpu
