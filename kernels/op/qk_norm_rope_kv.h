// q = rope(rmsnorm(q; q_w)) * scale in place, rope(rmsnorm(k; k_w)) and v into the cache: what lies
// between the projections of a layer and its attention.
//
// The ops of rmsnorm.h (head by head), rope.h and kv_write.h one after the other, and their bits;
// k stays as it is. Device backends only.
#pragma once

#include "kernels/op/kv_page.h"

namespace engine::op {

struct QkNormRopeKvArgs {
  float* q;          // [n_t, n_h, d]
  const float* k;    // [n_t, n_kv, d]
  const float* v;    // [n_t, n_kv, d]
  const float* q_w;  // [d]
  const float* k_w;  // [d]
  const float* cos;  // [n_t, d/2]
  const float* sin;  // [n_t, d/2]
  KvShape shape;     // n_kv, d
  KvPages pages;
  const KvRow* rows;  // [n_t]
  int n_t, n_h;
  float eps;
  float scale;  // of q
};

}  // namespace engine::op

namespace engine::cuda {
class Stream;
void qk_norm_rope_kv(const op::QkNormRopeKvArgs&, Stream&);
}  // namespace engine::cuda
namespace engine::simt {
class Stream;
void qk_norm_rope_kv(const op::QkNormRopeKvArgs&, Stream&);
}  // namespace engine::simt
