#pragma once

#include "kernels/op/quantize.h"
#include "tests/support/ops/float_output.h"
#include "tests/support/random.h"

namespace engine::test {

// Storage of QuantizedRows.
struct QuantizedBuffer {
  QuantizedBuffer(int n_t, int n_i)
      : n_inputs(n_i),
        q(count(n_t, n_i)),
        scale(count(n_t, n_i / op::kBlock)),
        sum16(count(n_t, n_i / op::kSubSum)),
        product16(count(n_t, n_i / op::kSubSum)) {}

  op::QuantizedRows rows(int first) {
    return {q.data() + count(first, n_inputs), scale.data() + count(first, n_inputs / op::kBlock),
            sum16.data() + count(first, n_inputs / op::kSubSum),
            product16.data() + count(first, n_inputs / op::kSubSum)};
  }
  void poison() { q.poison(), scale.poison(), sum16.poison(), product16.poison(); }
  bool guards_intact() const {
    return q.guards_intact() && scale.guards_intact() && sum16.guards_intact() &&
           product16.guards_intact();
  }
  Bits bits() const {
    Bits bits;
    append_bits(bits, q.span());
    append_bits(bits, scale.span());
    append_bits(bits, sum16.span());
    append_bits(bits, product16.span());
    return bits;
  }

  int n_inputs;
  Buffer<std::int16_t> q;
  Buffer<float> scale;
  Buffer<std::int32_t> sum16, product16;
};

class QuantizeOp {
 public:
  struct Shape {
    int n_t, n_i;
    std::size_t misalign = 0;  // of x
  };

  QuantizeOp(const Shape& shape, std::uint64_t seed)
      : shape_(shape), x_(count(shape.n_t, shape.n_i), shape.misalign), y_(shape.n_t, shape.n_i) {
    Random random(seed);
    for (float& v : x_) v = std::ldexp(random.normal(), random.below(12) - 6);
  }

  int n_t() const { return shape_.n_t; }
  Buffer<float>& x() { return x_; }
  QuantizedBuffer& y() { return y_; }

  void reset() { y_.poison(); }
  void keep_reference() { expected_ = y_.bits(); }
  void run_reference() {
    reset();
    ref::quantize(args(0, shape_.n_t));
    keep_reference();
  }
  template <class Context>
  void run(int first, int n, Context& context) {
    quantize(args(first, n), context);
  }
  std::string mismatch() const {
    if (!y_.guards_intact()) return "written outside the output";
    return compare_bits(expected_, y_.bits());
  }
  Bits bits() const { return y_.bits(); }
  bool guards_intact() const { return y_.guards_intact(); }
  std::size_t bytes() const {
    return 4 * x_.size() + 2 * y_.q.size() + 4 * (y_.scale.size() + 2 * y_.sum16.size());
  }

 private:
  op::QuantizeArgs args(int first, int n) {
    return {x_.data() + count(first, shape_.n_i), y_.rows(first), n, shape_.n_i};
  }

  Shape shape_;
  Buffer<float> x_;
  QuantizedBuffer y_;
  Bits expected_;
};

}  // namespace engine::test
