// Stores k[t] and v[t] at the row's position in its sequence's pages, converted to the cache's
// type.
//
// k, v [n_t, n_kv, d] f32. No two rows name the same (sequence, position). Exact.
#pragma once

#include "kernels/op/kv_page.h"

namespace engine::op {

struct KvWriteArgs {
  const float* k;  // [n_t, n_kv, d]
  const float* v;  // [n_t, n_kv, d]
  KvShape shape;
  KvPages pages;
  const KvRow* rows;  // [n_t]
  int n_t;
};

}  // namespace engine::op

namespace engine::ref {
void kv_write(const op::KvWriteArgs&);
}
namespace engine::cpu {
class Pool;
void kv_write(const op::KvWriteArgs&, Pool&);
}  // namespace engine::cpu
namespace engine::cuda {
class Stream;
void kv_write(const op::KvWriteArgs&, Stream&);
}  // namespace engine::cuda
namespace engine::simt {
class Stream;
void kv_write(const op::KvWriteArgs&, Stream&);
}  // namespace engine::simt
