#pragma once

#include "kernels/op/residual.h"
#include "tests/support/ops/float_output.h"
#include "tests/support/random.h"

namespace engine::test {

class ResidualOp : public FloatOutput {
 public:
  struct Shape {
    int n_t, n_i;
    std::size_t misalign = 0;
  };

  ResidualOp(const Shape& shape, std::uint64_t seed)
      : FloatOutput(count(shape.n_t, shape.n_i), shape.misalign),
        shape_(shape),
        x_(y_.size()),
        addend_(y_.size(), shape.misalign) {
    Random random(seed);
    random.fill_normal(x_, 100);
    random.fill_normal(addend_);
  }

  int n_t() const { return shape_.n_t; }
  Buffer<float>& x() { return x_; }

  void reset() { std::copy(x_.begin(), x_.end(), y_.begin()); }
  void run_reference() {
    reset();
    ref::residual(args(0, shape_.n_t));
    keep_reference();
  }
  template <class Context>
  void run(int first, int n, Context& context) {
    residual(args(first, n), context);
  }
  std::string mismatch() const {
    return compare_output([](std::size_t) { return 0.0; });
  }
  std::size_t bytes() const { return 4 * 3 * x_.size(); }

 private:
  op::ResidualArgs args(int first, int n) {
    const std::size_t offset = count(first, shape_.n_i);
    return {y_.data() + offset, addend_.data() + offset, count(n, shape_.n_i)};
  }

  Shape shape_;
  Buffer<float> x_, addend_;
};

}  // namespace engine::test
