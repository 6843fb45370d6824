#pragma once

#include "kernels/op/kv_write.h"
#include "kernels/op/qk_norm_rope_kv.h"
#include "kernels/op/rmsnorm.h"
#include "kernels/op/rope.h"
#include "tests/support/kv_pages.h"
#include "tests/support/ops/float_output.h"
#include "tests/support/random.h"

namespace engine::test {

// The CPU backend runs the chain, devices the fused op.
class QkNormRopeKvOp {
 public:
  struct Shape {
    op::KvShape kv;
    int n_h;
    std::vector<op::KvRow> rows;
    int n_sequences, n_positions;
    std::size_t misalign = 0;  // of all floats
  };

  QkNormRopeKvOp(Shape shape, std::uint64_t seed)
      : shape_(std::move(shape)),
        rows_(shape_.rows.size()),
        projected_q_(count(n_t(), shape_.n_h, shape_.kv.d), shape_.misalign),
        q_(projected_q_.size(), shape_.misalign),
        k_(count(n_t(), shape_.kv.n_kv, shape_.kv.d), shape_.misalign),
        v_(k_.size(), shape_.misalign),
        chain_k_(k_.size()),
        q_w_(count(shape_.kv.d), shape_.misalign),
        k_w_(count(shape_.kv.d), shape_.misalign),
        cos_(count(n_t(), shape_.kv.d / 2), shape_.misalign),
        sin_(cos_.size(), shape_.misalign),
        pages_(shape_.kv, shape_.n_sequences, shape_.n_positions) {
    std::copy(shape_.rows.begin(), shape_.rows.end(), rows_.begin());
    Random random(seed);
    for (Buffer<float>* values : {&projected_q_, &k_, &v_, &q_w_, &k_w_})
      random.fill_normal(*values, 2);
    for (std::size_t i = 0; i < cos_.size(); ++i) {
      const double angle = static_cast<double>(random.uniform(0, 6.3f));
      cos_[i] = static_cast<float>(std::cos(angle));
      sin_[i] = static_cast<float>(std::sin(angle));
    }
  }

  int n_t() const { return static_cast<int>(shape_.rows.size()); }
  Buffer<float>& q() { return projected_q_; }
  Buffer<float>& k() { return k_; }
  Buffer<float>& v() { return v_; }

  void reset() {
    std::copy(projected_q_.begin(), projected_q_.end(), q_.begin());
    pages_.poison();
  }
  void run(int first, int n, cpu::Pool& pool) {
    const int d = shape_.kv.d, n_h = shape_.n_h, n_kv = shape_.kv.n_kv;
    float* q = q_.data() + count(first, n_h, d);
    const std::size_t kv_at = count(first, n_kv, d), table_row = count(first, d / 2);
    float* k = chain_k_.data() + kv_at;
    cpu::rmsnorm({q, q_w_.data(), q, n * n_h, d, kEps}, pool);
    cpu::rmsnorm({k_.data() + kv_at, k_w_.data(), k, n * n_kv, d, kEps}, pool);
    cpu::rope({q, cos_.data() + table_row, sin_.data() + table_row, n, n_h, d, kScale}, pool);
    cpu::rope({k, cos_.data() + table_row, sin_.data() + table_row, n, n_kv, d, 1.0f}, pool);
    cpu::kv_write({k, v_.data() + kv_at, shape_.kv, pages_.pages(), rows_.data() + first, n}, pool);
  }
  template <class Stream>
  void run(int first, int n, Stream& stream) {
    const int d = shape_.kv.d;
    const std::size_t kv_at = count(first, shape_.kv.n_kv, d), table_row = count(first, d / 2);
    qk_norm_rope_kv(
        op::QkNormRopeKvArgs{q_.data() + count(first, shape_.n_h, d), k_.data() + kv_at,
                             v_.data() + kv_at, q_w_.data(), k_w_.data(), cos_.data() + table_row,
                             sin_.data() + table_row, shape_.kv, pages_.pages(),
                             rows_.data() + first, n, shape_.n_h, kEps, kScale},
        stream);
  }
  bool guards_intact() const { return q_.guards_intact() && pages_.guards_intact(); }
  Bits bits() const {
    Bits bits;
    append_bits(bits, q_.span());
    append_bits(bits, pages_);
    return bits;
  }

 private:
  static constexpr float kEps = 1e-6f, kScale = 0.0771517f;

  Shape shape_;
  Buffer<op::KvRow> rows_;
  Buffer<float> projected_q_;  // q before the op
  Buffer<float> q_, k_, v_, chain_k_, q_w_, k_w_, cos_, sin_;
  TestPages pages_;
};

}  // namespace engine::test
