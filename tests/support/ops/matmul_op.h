#pragma once

#include <optional>

#include "kernels/op/matmul.h"
#include "kernels/ref/weights.h"
#include "tests/support/kernel_weights.h"
#include "tests/support/ops/quantize_op.h"

namespace engine::test {

class MatmulOp : public FloatOutput {
 public:
  struct Shape {
    gguf::Type type;
    op::Layout layout;  // of a backend that has it; the others and the reference read rows
    int n_out, n_in, n_t;
    std::size_t misalign = 0;  // of float x, and of y
  };

  MatmulOp(const Shape& shape, std::uint64_t seed)
      : FloatOutput(count(shape.n_t, shape.n_out), shape.misalign),
        shape_(shape),
        rows_(make_weights(shape.type, shape.n_out, shape.n_in)),
        x_(count(shape.n_t, shape.n_in), shape.misalign),
        xq_(shape.n_t, shape.n_in) {
    Random random(seed);
    fill_random(rows_, random);
    random.fill_normal(x_);
    prepare();
  }

  // After a change of weights() or x(): packs the weights and quantises the activations.
  void prepare() {
    if (shape_.layout != op::Layout::rows) planes_ = pack_planes(rows_, shape_.layout);
    if (op::takes_quantized(shape_.type))
      ref::quantize({x_.data(), xq_.rows(0), shape_.n_t, shape_.n_in});
  }

  int n_t() const { return shape_.n_t; }
  Weights& weights() { return rows_; }
  Buffer<float>& x() { return x_; }
  QuantizedBuffer& xq() { return xq_; }
  float y(int t, int o) const { return y_[count(t, shape_.n_out) + static_cast<std::size_t>(o)]; }

  void reset() { y_.poison(); }
  void run_reference() {
    reset();
    ref::matmul(args(rows_, 0, shape_.n_t));
    keep_reference();
  }
  template <class Context>
  void run(int first, int n, Context& context) {
    matmul(args(first, n, context), context);
  }
  // Columns first .. first+n-1.
  template <class Context>
  op::MatmulArgs args(int first, int n, const Context& context) {
    return args(readable(rows_, planes_, context), first, n);
  }
  std::string mismatch() const {
    const std::vector<double> sizes = sums_of_magnitudes();
    const double roundings = shape_.n_in / op::kBlock + 12;
    return compare_output([&](std::size_t i) { return 0x1p-24 * roundings * sizes[i]; });
  }
  std::size_t bytes() const { return planes_ ? planes_->n_bytes() : rows_.n_bytes(); }
  std::size_t multiply_adds() const { return count(shape_.n_t, shape_.n_out, shape_.n_in); }

 private:
  op::MatmulArgs args(const Weights& w, int first, int n) {
    const bool is_quantized = op::takes_quantized(shape_.type);
    return {w.matrix(), is_quantized ? nullptr : x_.data() + count(first, shape_.n_in),
            is_quantized ? xq_.rows(first) : op::QuantizedRows{},
            y_.data() + count(first, shape_.n_out), n};
  }

  // sum_i |w[o,i] x[t,i]| for every output.
  std::vector<double> sums_of_magnitudes() const {
    std::vector<double> sums(y_.size());
    for (int o = 0; o < shape_.n_out; ++o) {
      const std::vector<double> w = ref::exact_row(rows_.matrix(), o);
      for (std::size_t t = 0; t < count(shape_.n_t); ++t) {
        const float* x = x_.data() + t * w.size();
        double& sum = sums[t * count(shape_.n_out) + static_cast<std::size_t>(o)];
        for (std::size_t i = 0; i < w.size(); ++i)
          sum += std::abs(w[i] * static_cast<double>(x[i]));
      }
    }
    return sums;
  }

  Shape shape_;
  Weights rows_;
  std::optional<Weights> planes_;
  Buffer<float> x_;
  QuantizedBuffer xq_;
};

}  // namespace engine::test
