// y[t,i] = decode(w[token[t], i]) * scale      decode rounds as types.h says, the product once
//
// w [n_vocab, n_i] of any type; tokens [n_t], each in 0..n_vocab-1 (checked by the engine);
// y [n_t, n_i]. scale = f32(sqrt(double(width))). Exact: equal bits in every backend and in ref.
#pragma once

#include <cstdint>

#include "kernels/op/matrix.h"

namespace engine::op {

struct EmbeddingArgs {
  Matrix w;
  const std::int32_t* tokens;  // [n_t]
  float* y;                    // [n_t, w.n_in]
  int n_t;
  float scale;
};

}  // namespace engine::op

namespace engine::ref {
void embedding(const op::EmbeddingArgs&);
}  // namespace engine::ref
namespace engine::cpu {
class Pool;
void embedding(const op::EmbeddingArgs&, Pool&);
}  // namespace engine::cpu
namespace engine::cuda {
class Stream;
void embedding(const op::EmbeddingArgs&, Stream&);
}  // namespace engine::cuda
namespace engine::simt {
class Stream;
void embedding(const op::EmbeddingArgs&, Stream&);
}  // namespace engine::simt
