#pragma once

#include "kernels/op/geglu.h"
#include "tests/support/ops/float_output.h"
#include "tests/support/random.h"

namespace engine::test {

class GegluOp : public FloatOutput {
 public:
  enum class Alias { none, gate, up };  // which input the output overwrites
  struct Shape {
    int n_t, n_i;
    Alias alias = Alias::none;
    std::size_t misalign = 0;
  };

  GegluOp(const Shape& shape, std::uint64_t seed)
      : FloatOutput(count(shape.n_t, shape.n_i), shape.misalign),
        shape_(shape),
        gate_(y_.size(), shape.misalign),
        up_(y_.size(), shape.misalign) {
    Random random(seed);
    random.fill_normal(gate_, 2);
    random.fill_normal(up_, 2);
  }

  int n_t() const { return shape_.n_t; }
  Buffer<float>& gate() { return gate_; }
  Buffer<float>& up() { return up_; }

  void reset() {
    if (shape_.alias == Alias::none)
      y_.poison();
    else
      std::copy_n(shape_.alias == Alias::gate ? gate_.data() : up_.data(), y_.size(), y_.data());
  }
  void run_reference() {
    reset();
    ref::geglu(args(0, shape_.n_t));
    keep_reference();
  }
  template <class Context>
  void run(int first, int n, Context& context) {
    geglu(args(first, n), context);
  }
  std::string mismatch() const {
    return compare_output([&](std::size_t i) {
      const double product = static_cast<double>(gate_[i]) * static_cast<double>(up_[i]);
      return 0x1p-24 * (16 * std::abs(expected(i)) + std::abs(product));
    });
  }
  std::size_t bytes() const { return 4 * 3 * y_.size(); }

 private:
  op::GegluArgs args(int first, int n) {
    const std::size_t offset = count(first, shape_.n_i);
    float* y = y_.data() + offset;
    return {shape_.alias == Alias::gate ? y : gate_.data() + offset,
            shape_.alias == Alias::up ? y : up_.data() + offset, y, count(n, shape_.n_i)};
  }

  Shape shape_;
  Buffer<float> gate_, up_;
};

}  // namespace engine::test
