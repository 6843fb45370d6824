// y[i] = gelu(gate[i]) * up[i], the tanh form of GELU.
//
//   u = (0.7978845608*x) * fma(0.044715*x, x, 1)      x = gate[i]
//   y = ((0.5*x) * (1 + tanh(u))) * up                tanh is op::tanh
//
// gate, up, y [n] f32; y may equal gate or up.
// Tolerance against ref (double): 2^-24 * 16 * |y| + 2^-24 * |x up|: for x << 0 the factor
// 1 + tanh(u) cancels, so the error is relative to x*up, not to y.
#pragma once

#include <cstddef>

namespace engine::op {

struct GegluArgs {
  const float* gate;  // [n]
  const float* up;    // [n]
  float* y;           // [n]
  std::size_t n;
};

}  // namespace engine::op

namespace engine::ref {
void geglu(const op::GegluArgs&);
}
namespace engine::cpu {
class Pool;
void geglu(const op::GegluArgs&, Pool&);
}  // namespace engine::cpu
namespace engine::cuda {
class Stream;
void geglu(const op::GegluArgs&, Stream&);
}  // namespace engine::cuda
namespace engine::simt {
class Stream;
void geglu(const op::GegluArgs&, Stream&);
}  // namespace engine::simt
