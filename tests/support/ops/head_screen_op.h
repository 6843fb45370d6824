#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>

#include "kernels/op/head_screen.h"
#include "kernels/op/matmul.h"
#include "kernels/ref/weights.h"
#include "tests/support/kernel_weights.h"
#include "tests/support/ops/quantize_op.h"

namespace engine::test {

class HeadScreenOp {
 public:
  struct Shape {
    int n_out, n_in, n_t, k;
    int n_ids = 0;  // 0: n_out
  };

  HeadScreenOp(const Shape& shape, std::uint64_t seed)
      : shape_(shape),
        random_(seed),
        rows_(make_weights(gguf::Type::q8_0, shape.n_out, shape.n_in)),
        x_(count(shape.n_t, shape.n_in)),
        xq_(shape.n_t, shape.n_in),
        directions_(count(op::kScreenDirections, shape.n_in)),
        directions_q_(directions_.size()),
        directions_scale_(directions_.size() / op::kBlock),
        directions_centre_(directions_scale_.size()),
        bounds_(count(n_groups(), cpu::kGroup)),
        projections_(count(n_groups(), cpu::kGroup, op::kScreenDirections)),
        steps_(count(n_groups())),
        ids_(count(shape.n_t, shape.k)),
        values_(ids_.size()),
        is_known_(count(shape.n_t)),
        scratch_(cpu::head_screen_scratch_bytes(shape.n_in, shape.n_t)) {
    fill_random(rows_, random_);
    random_.fill_normal(x_);
    random_.fill_normal(directions_, 1 / std::sqrt(static_cast<float>(shape.n_in)));
    prepare(cpu::best_isa());
  }

  // After a change of what these give access to: packs, quantises, makes the tables and the logits of
  // matmul() on this instruction set.
  void prepare(cpu::Isa isa) {
    planes_ = pack_planes(rows_, op::Layout::split_planes);
    ref::quantize({x_.data(), xq_.rows(0), shape_.n_t, shape_.n_in});
    bounds_.poison(), projections_.poison(), steps_.poison();
    logits_.assign(count(shape_.n_t, shape_.n_out), 0.0f);
    cpu::Pool pool(2, isa);
    const Status status = pool.run([&] {
      const op::Matrix w = planes_->matrix();
      cpu::screen_bounds({w, bounds_.data()}, pool);
      cpu::screen_projections(
          {w, directions_.data(), rounded(), projections_.data(), steps_.data()}, pool);
      cpu::matmul({w, nullptr, xq_.rows(0), logits_.data(), shape_.n_t}, pool);
    });
    if (!status.ok()) logits_.clear();
  }
  gguf::BlockQ8_0& block(int row, int b) {
    return rows_.blocks<gguf::BlockQ8_0>()[count(row, shape_.n_in / op::kBlock) + count(b)];
  }
  Buffer<float>& x() { return x_; }
  Buffer<float>& directions() { return directions_; }
  Random& random() { return random_; }
  const Shape& shape() const { return shape_; }
  void set_most_evaluated(int n) { most_evaluated_ = n; }
  // Whether runs leave bounds, and what is wrong with those of the last one: "" if none is below matmul()'s
  // logit.
  void ask_for_bounds() { upper_.assign(count(shape_.n_t, shape_.n_out), 0.0f); }
  std::string wrong_bound() const {
    for (std::size_t i = 0; i < upper_.size(); ++i)
      if (upper_[i] < logits_[i])
        return "bound " + std::to_string(i) + " is " + std::to_string(upper_[i]) +
               ", the logit is " + std::to_string(logits_[i]);
    return "";
  }
  const std::vector<float>& bounds() const { return upper_; }
  const std::vector<float>& reference_bounds() const { return reference_upper_; }
  const std::vector<float>& logits() const { return logits_; }
  bool is_known(int t) const { return is_known_[count(t)] != 0; }
  int n_evaluated() const { return n_evaluated_; }
  Bits table_bits() const {
    Bits bits;
    append_bits(bits, bounds_.span());
    append_bits(bits, projections_.span());
    append_bits(bits, steps_.span());
    return bits;
  }

  int n_t() const { return shape_.n_t; }
  void reset() { ids_.poison(), values_.poison(), is_known_.poison(), scratch_.poison(); }
  // Of the bounds.
  void run_reference() {
    reset();
    reference_upper_.assign(count(shape_.n_t, shape_.n_out), 0.0f);
    op::HeadScreenArgs a = args(0, shape_.n_t);
    a.w = rows_.matrix();
    a.upper = reference_upper_.data();
    ref::head_screen(a);
  }
  template <class Context>
  void run(int first, int n, Context& context) {
    head_screen(args(first, n), context);
  }
  // The best logits of matmul(), found plainly. Where a column is not known, there is nothing to compare.
  std::string mismatch() const {
    for (int t = 0; t < shape_.n_t; ++t) {
      if (!is_known(t)) continue;
      std::vector<std::int32_t> ids(count(shape_.k));
      std::vector<float> values(ids.size());
      std::uint32_t non_finite = 0;
      ref::top_logits({logits_.data() + count(t, shape_.n_out), ids.data(), values.data(),
                       &non_finite, 1, shape_.n_out, n_ids(), shape_.k});
      for (int i = 0; i < shape_.k; ++i) {
        const std::size_t at = count(t, shape_.k) + count(i);
        const int id = ids[count(i)];
        if (ids_[at] != id || values_[at] != values[count(i)])
          return "column " + std::to_string(t) + ", place " + std::to_string(i) + ": id " +
                 std::to_string(ids_[at]) + " with " + std::to_string(values_[at]) + ", expected " +
                 std::to_string(id) + " with " + std::to_string(values[count(i)]);
      }
    }
    return "";
  }
  Bits bits() const {
    Bits bits;
    for (int t = 0; t < shape_.n_t; ++t) {
      append_bits(bits, is_known_.span().subspan(count(t), 1));
      if (!is_known(t)) continue;
      append_bits(bits, ids_.span().subspan(count(t, shape_.k), count(shape_.k)));
      append_bits(bits, values_.span().subspan(count(t, shape_.k), count(shape_.k)));
    }
    return bits;
  }
  bool guards_intact() const {
    return ids_.guards_intact() && values_.guards_intact() && is_known_.guards_intact() &&
           scratch_.guards_intact() && bounds_.guards_intact() && projections_.guards_intact() &&
           steps_.guards_intact();
  }
  // Without the rows that are read in full.
  std::size_t bytes() const {
    return count(shape_.n_out, shape_.n_in) / 2 +
           2 * count(shape_.n_out, shape_.n_in) / op::kBlock + count(shape_.n_out) * 6 +
           count(n_groups()) * sizeof(float);
  }

 private:
  int n_groups() const { return cpu::n_groups(rows_.matrix()); }
  int n_ids() const { return shape_.n_ids == 0 ? shape_.n_out : shape_.n_ids; }
  op::ScreenDirections rounded() {
    return {directions_q_.data(), directions_scale_.data(), directions_centre_.data()};
  }
  op::HeadScreenArgs args(int first, int n) {
    return {.w = planes_->matrix(),
            .table = {bounds_.data(), projections_.data(), steps_.data(), rounded()},
            .x = xq_.rows(first),
            .ids = ids_.data() + count(first, shape_.k),
            .values = values_.data() + count(first, shape_.k),
            .is_known = is_known_.data() + first,
            .n_evaluated = &n_evaluated_,
            .scratch = scratch_.data(),
            .upper = upper_.empty() ? nullptr : upper_.data() + count(first, shape_.n_out),
            .n_t = n,
            .n_ids = n_ids(),
            .k = shape_.k,
            .most_evaluated = most_evaluated_};
  }

  Shape shape_;
  Random random_;
  Weights rows_;
  std::optional<Weights> planes_;
  Buffer<float> x_;
  QuantizedBuffer xq_;
  Buffer<float> directions_;
  Buffer<std::int8_t> directions_q_;
  Buffer<float> directions_scale_, directions_centre_;
  Buffer<std::uint16_t> bounds_;
  Buffer<std::uint8_t> projections_;
  Buffer<float> steps_;
  std::vector<float> logits_;  // of matmul()
  std::vector<float> upper_, reference_upper_;
  Buffer<std::int32_t> ids_;
  Buffer<float> values_;
  Buffer<std::int32_t> is_known_;
  Buffer<std::byte> scratch_;
  std::int32_t n_evaluated_ = 0;
  int most_evaluated_ = std::numeric_limits<int>::max();
};

}  // namespace engine::test
