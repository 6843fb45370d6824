// y[t,i] = (x[t,i] * r) * w[i],  r = 1 / sqrt(ss / n_i + eps),  ss = sum_i x[t,i]^2
//
// GGUF norm weights already hold 1 + gamma. Lane l of 128: p = +0; p = fma(x, x, p) over i = l,
// l+128, …; halving tree gives ss. The head-wise q and k norms are the same op with n_t * n_heads
// rows of head_dim. x, y [n_t, n_i] f32, y may equal x; w [n_i] f32. Tolerance against ref
// (double): 2^-24 * (n_i/128 + 12) * |y|: the sum's relative error is at most its depth, halved by
// the root, plus the roundings of r and the two products.
#pragma once

namespace engine::op {

struct RmsNormArgs {
  const float* x;  // [n_t, n_i]
  const float* w;  // [n_i]
  float* y;        // [n_t, n_i]
  int n_t, n_i;
  float eps;
};

}  // namespace engine::op

namespace engine::ref {
void rmsnorm(const op::RmsNormArgs&);
}
namespace engine::cpu {
class Pool;
void rmsnorm(const op::RmsNormArgs&, Pool&);
}  // namespace engine::cpu
namespace engine::cuda {
class Stream;
void rmsnorm(const op::RmsNormArgs&, Stream&);
}  // namespace engine::cuda
namespace engine::simt {
class Stream;
void rmsnorm(const op::RmsNormArgs&, Stream&);
}  // namespace engine::simt
