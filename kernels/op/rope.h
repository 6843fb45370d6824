// Rotary position embedding, in place, then one multiplication by `scale`.
//
// Pairs (i, i + d/2) of each head: lo' = fma(lo, c, -(hi*s)), hi' = fma(hi, c, lo*s) with c, s from
// the table row of the row's position; then x = x' * scale (the attention scale for q; 1, which is
// exact, for k). x [n_t, n_h, d] f32, d even; cos, sin [n_t, d/2] f32, rounded once from double.
// Tolerance against ref (double, same table): 3 * 2^-24 * (|lo| + |hi|) * |scale|.
#pragma once

namespace engine::op {

struct RopeArgs {
  float* x;          // [n_t, n_h, d]
  const float* cos;  // [n_t, d/2]
  const float* sin;  // [n_t, d/2]
  int n_t, n_h, d;
  float scale;
};

}  // namespace engine::op

namespace engine::ref {
void rope(const op::RopeArgs&);
}
namespace engine::cpu {
class Pool;
void rope(const op::RopeArgs&, Pool&);
}  // namespace engine::cpu
namespace engine::cuda {
class Stream;
void rope(const op::RopeArgs&, Stream&);
}  // namespace engine::cuda
namespace engine::simt {
class Stream;
void rope(const op::RopeArgs&, Stream&);
}  // namespace engine::simt
