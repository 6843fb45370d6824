#pragma once

#include "kernels/op/sample_weights.h"
#include "tests/support/ops/float_output.h"
#include "tests/support/random.h"

namespace engine::test {

// Its rows are single logits.
class SampleWeightsOp : public FloatOutput {
 public:
  struct Shape {
    int n;
    float temperature = 1;
    bool in_place = false;
    std::size_t misalign = 0;
  };

  SampleWeightsOp(const Shape& shape, std::uint64_t seed)
      : FloatOutput(count(shape.n), shape.misalign),
        shape_(shape),
        logits_(y_.size(), shape.misalign) {
    Random random(seed);
    for (float& v : logits_) v = random.uniform(-30, kMax);
    if (shape.n > 0) logits_[y_.size() / 2] = kMax;
  }

  int n_t() const { return shape_.n; }
  Buffer<float>& logits() { return logits_; }

  void reset() {
    if (shape_.in_place)
      std::copy(logits_.begin(), logits_.end(), y_.begin());
    else
      y_.poison();
  }
  void run_reference() {
    reset();
    ref::sample_weights(args(0, shape_.n));
    keep_reference();
  }
  template <class Context>
  void run(int first, int n, Context& context) {
    sample_weights(args(first, n), context);
  }
  std::string mismatch() const {
    return compare_output([&](std::size_t i) {
      const double below = static_cast<double>(logits_[i]) - static_cast<double>(kMax);
      return 0x1p-24 * (4 - 2 * below / static_cast<double>(shape_.temperature)) * expected(i) +
             0x1p-117;
    });
  }
  std::size_t bytes() const { return 4 * 2 * y_.size(); }

 private:
  static constexpr float kMax = 10;

  op::SampleWeightsArgs args(int first, int n) {
    float* weights = y_.data() + first;
    return {shape_.in_place ? weights : logits_.data() + first, weights, n, kMax,
            shape_.temperature};
  }

  Shape shape_;
  Buffer<float> logits_;
};

}  // namespace engine::test
