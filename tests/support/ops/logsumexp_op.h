#pragma once

#include "kernels/op/logsumexp.h"
#include "tests/support/ops/float_output.h"
#include "tests/support/random.h"

namespace engine::test {

class LogSumExpOp : public FloatOutput {
 public:
  struct Shape {
    int n_t, n_vocab;
    std::size_t misalign = 0;
  };

  LogSumExpOp(const Shape& shape, std::uint64_t seed)
      : FloatOutput(count(shape.n_t)),
        shape_(shape),
        logits_(count(shape.n_t, shape.n_vocab), shape.misalign) {
    Random random(seed);
    for (float& v : logits_) v = random.uniform(-20, 10);
  }

  int n_t() const { return shape_.n_t; }
  Buffer<float>& logits() { return logits_; }

  void reset() { y_.poison(); }
  void run_reference() {
    reset();
    ref::logsumexp(args(0, shape_.n_t));
    keep_reference();
  }
  template <class Context>
  void run(int first, int n, Context& context) {
    logsumexp(args(first, n), context);
  }
  std::string mismatch() const {
    return compare_output([&](std::size_t t) {
      const float* row = logits_.data() + t * count(shape_.n_vocab);
      const double m = static_cast<double>(*std::max_element(row, row + shape_.n_vocab));
      return 0x1p-24 * (std::abs(m) + 48 + std::log2(shape_.n_vocab));
    });
  }
  std::size_t bytes() const { return 4 * logits_.size(); }

 private:
  op::LogSumExpArgs args(int first, int n) {
    return {logits_.data() + count(first, shape_.n_vocab), y_.data() + count(first), n,
            shape_.n_vocab};
  }

  Shape shape_;
  Buffer<float> logits_;
};

}  // namespace engine::test
