// The k best of a row's logits, exactly as top_logits() finds them among matmul()'s, without reading all of
// the head: a pass over the high nibbles bounds every logit from above, and only rows whose bound reaches
// the k-th best logit found so far are evaluated.
//
// Weights are Q8_0: in block b of a row, d_b * (16h + l - 128) with nibbles h and l. x are the activations
// as matmul() takes them, x_b those of block b; ||.|| is the Euclidean norm.
//
//   y_b: x_b itself or on a grid of 8 bits; e_b = ||x_b - y_b||
//   V_0 .. V_3: any finite directions of length at most 1; z = x - sum_k c_k V_k with c_k near V_k.x
//   p_k = sum_b d_b (l - 7.5).V_k,b
//
//   w.x = sum_b d_b (16h - 120.5).y_b                                 the pass
//       + sum_k c_k p_k                                               the projections, stored for every row
//       + sum_b d_b ((16h - 120.5).(x_b - y_b) + (l - 7.5).z_b)       the rest
//
// By Cauchy-Schwarz the rest is at most R * sum_b |d_b| * (kHighShare * e_b + ||z_b||), with one number R a
// row that is at least ||l - 7.5|| and at least ||16h - 120.5|| / kHighShare in each of its blocks. Directions
// decide how far the bound is from the logit, never whether it holds: the main ones of hidden states make z
// small. What rounding adds is derived beside rounding_share(). A row whose R is NaN, because it holds a scale
// that is not finite, is always evaluated.
//
// Result of a row t of x: `ids` and `values` as of top_logits(), but for the sign of zero, or is_known = 0 if its
// logits have to be computed after all: an evaluated one is not finite; or, for all t at once, an activation is not
// finite, numbers are so large that sums might overflow, or more rows of w than `most_evaluated` had to be
// evaluated, which may depend on the threads' order where it is close.
//
// w [n_out, n_in] in Layout::split_planes, n_in <= kMostScreenInputs; x [n_t, n_in], n_t <= kMostScreenRows;
// 1 <= k <= min(kMaxTopLogits, n_ids), n_ids <= n_out. Exact.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/op/matrix.h"
#include "kernels/op/quantize.h"
#include "kernels/op/top_logits.h"

namespace engine::op {

inline constexpr int kScreenDirections = 4;
inline constexpr int kMostScreenRows = 8;
inline constexpr int kMostScreenInputs = 252 * kBlock;

// Any value keeps the bound; this one is close to the least R for both parts of a block. In rows of Gemma 3 270M
// the largest ||16h - 120.5|| is 12.3 times the largest ||l - 7.5|| (median; 14.5 in 99 of 100).
inline constexpr float kHighShare = 14.0f;

// Rounding, as a share of ||x_b|| that is added to ||z_b||. With n blocks in a row, in units of |d_b| ||x_b||:
// matmul() is off by 2^-24 (n + 12) ||w/d|| <= 2^-24 (n + 12) * 725 (128 * sqrt(32)); the pass adds n terms
// of at most 240 sqrt(32) + 120.5 sqrt(32), times 1.03 for y instead of x, with a handful of operations more, the additions at
// the end included: 2^-24 (n + 12) * 2100. R is at least 0.5 sqrt(32), for no l is 7.5: together below 2^-24 (n + 12) * 1000.
// What double leaves of z and c_k is far below the 24 of 1024 that remain.
constexpr double rounding_share(int n_blocks) { return 0x1p-14 * (n_blocks + 12); }
// The same for p_k, as a share of |c_k| ||V_k,b||, sums of nibbles being exact: 2^-24 (n + 12) * 7.5 sqrt(32) / R
// and more than that.
constexpr double projection_rounding_share(int n_blocks) { return 0x1p-18 * (n_blocks + 12); }
// The sum over blocks that R is multiplied with has at most 252 + 4 roundings of its own.
inline constexpr double kSlackRounding = 1 + 0x1p-16;
// p_k is stored as a multiple of a step, which is at least 2^-120: half a step off, and a bit for the arithmetic on
// it and for what is lost below the least normal float.
inline constexpr float kStepsOff = 0.5f + 0x1p-8f;
// Products below the least normal float are off by up to 2^-123 each; where this is lost in a larger bound, the
// share above exceeds it.
inline constexpr float kUnderflow = 0x1p-100f;
// Below this sum of ||x_b||, nothing here or in matmul() overflows: |d_b| <= 65504, and all factors are below 2^12
// or, in c_k and p_k, lengths of directions.
inline constexpr double kMostScreenNorm = 0x1p80;

// V = scale * q, in 8 bits.
struct ScreenDirections {
  std::int8_t* q;  // [4, n_in]
  float* scale;    // [4, n_in / 32]
  float* centre;   // [4, n_in / 32] -7.5 * the sum of a block's q
};

// What is known of every row before any x is. Groups are those of 16 rows in kernels/cpu/planes.h; the last one
// is padded.
struct HeadScreenTable {
  const std::uint16_t* bounds;      // [n_groups, 16] R, fp16, rounded up
  const std::uint8_t* projections;  // [n_groups, 16, 4] p_k / step + 128
  const float* steps;               // [n_groups]
  ScreenDirections directions;
};

struct ScreenBoundsArgs {
  Matrix w;
  std::uint16_t* bounds;  // [n_groups, 16]
};

struct ScreenProjectionsArgs {
  Matrix w;
  const float* directions;    // [4, n_in]
  ScreenDirections rounded;   // to be filled
  std::uint8_t* projections;  // [n_groups, 16, 4]
  float* steps;               // [n_groups]
};

struct HeadScreenArgs {
  Matrix w;
  HeadScreenTable table;
  QuantizedRows x;         // [n_t, n_in]
  std::int32_t* ids;       // [n_t, k]
  float* values;           // [n_t, k]
  std::int32_t* is_known;  // [n_t]
  std::int32_t*
      n_evaluated;     // one number: rows of w, each with all columns; threads decide which ones
  std::byte* scratch;  // head_screen_scratch_bytes(), aligned to 64
  float* upper = nullptr;  // [n_t, n_out] the bounds, for tests; or null
  int n_t, n_ids, k;
  int most_evaluated;
};

}  // namespace engine::op

namespace engine::ref {
// w in Layout::rows, tables but the directions unused, all `upper` asked for. Logits in double; y = x.
void head_screen(const op::HeadScreenArgs&);
}  // namespace engine::ref
namespace engine::cpu {
class Pool;
void screen_bounds(const op::ScreenBoundsArgs&, Pool&);
void screen_projections(const op::ScreenProjectionsArgs&, Pool&);
std::size_t head_screen_scratch_bytes(int n_in, int n_t);
void head_screen(const op::HeadScreenArgs&, Pool&);
}  // namespace engine::cpu
