// lse[t] = M + log(Z), M = max_i logits[t,i], Z = sum_i exp(logits[t,i] - M).
//
// Chunks of 4,096 ids; lane i mod 128 adds exp(l_i - M) ascending from +0; halving tree; chunk sums
// are added ascending from +0. Minus infinity (a masked id) contributes +0. logits [n_t, n_vocab]
// f32; lse [n_t]. Tolerance against ref (double): 2^-24 * (|M| + 48 + log2(n_vocab)).
#pragma once

namespace engine::op {

struct LogSumExpArgs {
  const float* logits;  // [n_t, n_vocab]
  float* lse;           // [n_t]
  int n_t, n_vocab;
};

}  // namespace engine::op

namespace engine::ref {
void logsumexp(const op::LogSumExpArgs&);
}
namespace engine::cpu {
class Pool;
void logsumexp(const op::LogSumExpArgs&, Pool&);
}  // namespace engine::cpu
namespace engine::cuda {
class Stream;
void logsumexp(const op::LogSumExpArgs&, Stream&);
}  // namespace engine::cuda
namespace engine::simt {
class Stream;
void logsumexp(const op::LogSumExpArgs&, Stream&);
}  // namespace engine::simt
