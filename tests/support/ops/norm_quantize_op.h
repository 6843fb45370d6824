#pragma once

#include "kernels/op/norm_quantize.h"
#include "kernels/op/rmsnorm.h"
#include "tests/support/ops/quantize_op.h"

namespace engine::test {

// The CPU backend runs the chain, devices the fused op.
class NormQuantizeOp {
 public:
  struct Shape {
    int n_t, n_i;
    std::size_t misalign = 0;  // of x and w
  };

  NormQuantizeOp(const Shape& shape, std::uint64_t seed)
      : shape_(shape),
        x_(count(shape.n_t, shape.n_i), shape.misalign),
        w_(count(shape.n_i), shape.misalign),
        normed_(x_.size()),
        y_(shape.n_t, shape.n_i) {
    Random random(seed);
    random.fill_normal(x_, 3);
    random.fill_normal(w_);
  }

  int n_t() const { return shape_.n_t; }
  Buffer<float>& x() { return x_; }

  void reset() { y_.poison(); }
  void run(int first, int n, cpu::Pool& pool) {
    const std::size_t row = count(first, shape_.n_i);
    cpu::rmsnorm({x_.data() + row, w_.data(), normed_.data() + row, n, shape_.n_i, kEps}, pool);
    cpu::quantize({normed_.data() + row, y_.rows(first), n, shape_.n_i}, pool);
  }
  template <class Stream>
  void run(int first, int n, Stream& stream) {
    norm_quantize(op::NormQuantizeArgs{x_.data() + count(first, shape_.n_i), w_.data(),
                                       y_.rows(first), n, shape_.n_i, kEps},
                  stream);
  }
  bool guards_intact() const { return y_.guards_intact(); }
  Bits bits() const { return y_.bits(); }

 private:
  static constexpr float kEps = 1e-6f;

  Shape shape_;
  Buffer<float> x_, w_, normed_;
  QuantizedBuffer y_;
};

}  // namespace engine::test
