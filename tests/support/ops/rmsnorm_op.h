#pragma once

#include "kernels/op/rmsnorm.h"
#include "tests/support/ops/float_output.h"
#include "tests/support/random.h"

namespace engine::test {

class RmsNormOp : public FloatOutput {
 public:
  struct Shape {
    int n_t, n_i;
    bool in_place = false;
    std::size_t misalign = 0;
  };

  RmsNormOp(const Shape& shape, std::uint64_t seed)
      : FloatOutput(count(shape.n_t, shape.n_i), shape.misalign),
        shape_(shape),
        x_(count(shape.n_t, shape.n_i), shape.misalign),
        w_(count(shape.n_i), shape.misalign) {
    Random random(seed);
    random.fill_normal(x_, 3);
    random.fill_normal(w_);
  }

  int n_t() const { return shape_.n_t; }
  Buffer<float>& x() { return x_; }
  Buffer<float>& w() { return w_; }
  static constexpr float kEps = 1e-6f;

  void reset() {
    if (shape_.in_place)
      std::copy(x_.begin(), x_.end(), y_.begin());
    else
      y_.poison();
  }
  void run_reference() {
    reset();
    ref::rmsnorm(args(0, shape_.n_t));
    keep_reference();
  }
  template <class Context>
  void run(int first, int n, Context& context) {
    rmsnorm(args(first, n), context);
  }
  std::string mismatch() const {
    const double roundings = shape_.n_i / 128 + 12;
    return compare_output(
        [&](std::size_t i) { return 0x1p-24 * roundings * std::abs(expected(i)); });
  }
  std::size_t bytes() const { return 4 * (2 * x_.size() + w_.size()); }

 private:
  op::RmsNormArgs args(int first, int n) {
    float* y = y_.data() + count(first, shape_.n_i);
    const float* x = shape_.in_place ? y : x_.data() + count(first, shape_.n_i);
    return {x, w_.data(), y, n, shape_.n_i, kEps};
  }

  Shape shape_;
  Buffer<float> x_, w_;
};

}  // namespace engine::test
