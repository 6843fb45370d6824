#pragma once

#include "kernels/op/rope.h"
#include "tests/support/ops/float_output.h"
#include "tests/support/random.h"

namespace engine::test {

class RopeOp : public FloatOutput {
 public:
  struct Shape {
    int n_t, n_h, d;
    float scale = 1;
    std::size_t misalign = 0;
  };

  RopeOp(const Shape& shape, std::uint64_t seed)
      : FloatOutput(count(shape.n_t, shape.n_h, shape.d), shape.misalign),
        shape_(shape),
        x_(y_.size()),
        cos_(count(shape.n_t, shape.d / 2), shape.misalign),
        sin_(cos_.size(), shape.misalign) {
    Random random(seed);
    random.fill_normal(x_);
    for (std::size_t i = 0; i < cos_.size(); ++i) {
      const double angle = static_cast<double>(random.uniform(0, 6.3f));
      cos_[i] = static_cast<float>(std::cos(angle));
      sin_[i] = static_cast<float>(std::sin(angle));
    }
  }

  int n_t() const { return shape_.n_t; }
  Buffer<float>& x() { return x_; }
  Buffer<float>& cos() { return cos_; }
  Buffer<float>& sin() { return sin_; }

  void reset() { std::copy(x_.begin(), x_.end(), y_.begin()); }
  void run_reference() {
    reset();
    ref::rope(args(0, shape_.n_t));
    keep_reference();
  }
  template <class Context>
  void run(int first, int n, Context& context) {
    rope(args(first, n), context);
  }
  std::string mismatch() const {
    const std::size_t d = static_cast<std::size_t>(shape_.d);
    return compare_output([&](std::size_t i) {
      const std::size_t partner = i % d < d / 2 ? i + d / 2 : i - d / 2;
      const double size = std::abs(x_[i]) + std::abs(x_[partner]);
      return 3 * 0x1p-24 * size * std::abs(static_cast<double>(shape_.scale));
    });
  }
  std::size_t bytes() const { return 4 * (2 * x_.size() + 2 * cos_.size()); }

 private:
  op::RopeArgs args(int first, int n) {
    const std::size_t table_row = count(first, shape_.d / 2);
    return {y_.data() + count(first, shape_.n_h, shape_.d),
            cos_.data() + table_row,
            sin_.data() + table_row,
            n,
            shape_.n_h,
            shape_.d,
            shape_.scale};
  }

  Shape shape_;
  Buffer<float> x_, cos_, sin_;
};

}  // namespace engine::test
