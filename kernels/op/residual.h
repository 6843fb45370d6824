// x[i] += y[i], one rounding. x, y [n] f32, no overlap unless equal. Exact.
#pragma once

#include <cstddef>

namespace engine::op {

struct ResidualArgs {
  float* x;        // [n]
  const float* y;  // [n]
  std::size_t n;
};

}  // namespace engine::op

namespace engine::ref {
void residual(const op::ResidualArgs&);
}
namespace engine::cpu {
class Pool;
void residual(const op::ResidualArgs&, Pool&);
}  // namespace engine::cpu
namespace engine::cuda {
class Stream;
void residual(const op::ResidualArgs&, Stream&);
}  // namespace engine::cuda
namespace engine::simt {
class Stream;
void residual(const op::ResidualArgs&, Stream&);
}  // namespace engine::simt
