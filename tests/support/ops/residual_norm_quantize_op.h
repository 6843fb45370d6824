#pragma once

#include "kernels/op/residual.h"
#include "kernels/op/residual_norm_quantize.h"
#include "kernels/op/rmsnorm.h"
#include "tests/support/ops/quantize_op.h"

namespace engine::test {

// The CPU backend runs the chain, devices the fused op.
class ResidualNormQuantizeOp {
 public:
  struct Shape {
    int n_t, n_i;
    std::size_t misalign = 0;  // of all floats
  };

  ResidualNormQuantizeOp(const Shape& shape, std::uint64_t seed)
      : shape_(shape),
        stream_(count(shape.n_t, shape.n_i), shape.misalign),
        x_(stream_.size(), shape.misalign),
        y_(stream_.size(), shape.misalign),
        post_w_(count(shape.n_i), shape.misalign),
        w_(count(shape.n_i), shape.misalign),
        normed_(stream_.size()),
        q_(shape.n_t, shape.n_i) {
    Random random(seed);
    random.fill_normal(stream_, 100);
    random.fill_normal(y_, 3);
    random.fill_normal(post_w_);
    random.fill_normal(w_);
  }

  int n_t() const { return shape_.n_t; }
  Buffer<float>& x() { return stream_; }
  Buffer<float>& y() { return y_; }

  void reset() {
    std::copy(stream_.begin(), stream_.end(), x_.begin());
    q_.poison();
  }
  void run(int first, int n, cpu::Pool& pool) {
    const int n_i = shape_.n_i;
    const std::size_t row = count(first, n_i);
    float* normed = normed_.data() + row;
    cpu::rmsnorm({y_.data() + row, post_w_.data(), normed, n, n_i, kEps}, pool);
    cpu::residual({x_.data() + row, normed, count(n, n_i)}, pool);
    cpu::rmsnorm({x_.data() + row, w_.data(), normed, n, n_i, kEps}, pool);
    cpu::quantize({normed, q_.rows(first), n, n_i}, pool);
  }
  template <class Stream>
  void run(int first, int n, Stream& stream) {
    const std::size_t row = count(first, shape_.n_i);
    residual_norm_quantize(
        op::ResidualNormQuantizeArgs{x_.data() + row, y_.data() + row, post_w_.data(), w_.data(),
                                     q_.rows(first), n, shape_.n_i, kEps},
        stream);
  }
  bool guards_intact() const { return x_.guards_intact() && q_.guards_intact(); }
  Bits bits() const {
    Bits bits = q_.bits();
    append_bits(bits, x_.span());
    return bits;
  }

 private:
  static constexpr float kEps = 1e-6f;

  Shape shape_;
  Buffer<float> stream_;  // x before the op
  Buffer<float> x_, y_, post_w_, w_, normed_;
  QuantizedBuffer q_;
};

}  // namespace engine::test
