// The tables of the screened head.
#pragma once

#include <algorithm>
#include <cmath>
#include <optional>

#include "kernels/op/head_screen.h"
#include "tests/support/kernel_weights.h"
#include "tests/support/ops/float_output.h"

namespace engine::test {

// Weights, and their two parts as op/head_screen.h has them.
class ScreenTableOp {
 public:
  struct Shape {
    int n_out, n_in;
  };
  int n_t() const { return 1; }

 protected:
  ScreenTableOp(const Shape& shape, std::uint64_t seed)
      : shape_(shape),
        random_(seed),
        rows_(make_weights(gguf::Type::q8_0, shape.n_out, shape.n_in)) {
    fill_random(rows_, random_);
    planes_ = pack_planes(rows_, op::Layout::split_planes);
  }
  int n_blocks() const { return shape_.n_in / op::kBlock; }
  int n_groups() const { return cpu::n_groups(rows_.matrix()); }
  const gguf::BlockQ8_0& block(int row, int b) {
    return rows_.blocks<gguf::BlockQ8_0>()[count(row, n_blocks()) + count(b)];
  }
  static double low(const gguf::BlockQ8_0& block, int i) { return (block.qs[i] + 128) % 16 - 7.5; }
  static double high(const gguf::BlockQ8_0& block, int i) {
    return (block.qs[i] + 128) / 16 * 16 - 120.5;
  }

  Shape shape_;
  Random random_;
  Weights rows_;
  std::optional<Weights> planes_;
};

class ScreenBoundsOp : public ScreenTableOp {
 public:
  ScreenBoundsOp(const Shape& shape, std::uint64_t seed)
      : ScreenTableOp(shape, seed), bounds_(count(n_groups(), cpu::kGroup)) {}

  void reset() { bounds_.poison(); }
  void run_reference() {
    expected_.clear();
    for (int row = 0; row < shape_.n_out; ++row) {
      double most = 0;
      for (int b = 0; b < n_blocks(); ++b) {
        double lows = 0, highs = 0;
        for (int i = 0; i < op::kBlock; ++i) {
          lows += std::pow(low(block(row, b), i), 2);
          highs += std::pow(high(block(row, b), i), 2);
        }
        most = std::max(
            {most, std::sqrt(lows), std::sqrt(highs) / static_cast<double>(op::kHighShare)});
      }
      expected_.push_back(most);
    }
  }
  template <class Context>
  void run(int, int, Context& context) {
    screen_bounds(op::ScreenBoundsArgs{planes_->matrix(), bounds_.data()}, context);
  }
  // Never below, and above by less than what is lost with fp16.
  std::string mismatch() const {
    for (std::size_t row = 0; row < expected_.size(); ++row) {
      const auto got = static_cast<double>(gguf::f32_from_f16(bounds_[row]));
      if (!(got >= expected_[row] && got <= 1.003 * expected_[row]))
        return "row " + std::to_string(row) + ": bound " + std::to_string(got) + " of " +
               std::to_string(expected_[row]);
    }
    return "";
  }
  Bits bits() const {
    Bits bits;
    append_bits(bits, bounds_.span().first(count(shape_.n_out)));
    return bits;
  }
  bool guards_intact() const { return bounds_.guards_intact(); }
  std::size_t bytes() const { return planes_->n_bytes() + 2 * count(shape_.n_out); }

 private:
  Buffer<std::uint16_t> bounds_;
  std::vector<double> expected_;
};

class ScreenProjectionsOp : public ScreenTableOp {
 public:
  ScreenProjectionsOp(const Shape& shape, std::uint64_t seed)
      : ScreenTableOp(shape, seed),
        directions_(count(kDirections, shape.n_in)),
        q_(directions_.size()),
        scale_(directions_.size() / op::kBlock),
        centre_(scale_.size()),
        projections_(count(n_groups(), cpu::kGroup, kDirections)),
        steps_(count(n_groups())) {
    random_.fill_normal(directions_);
  }

  void reset() {
    q_.poison(), scale_.poison(), centre_.poison(), projections_.poison(), steps_.poison();
  }
  // Along the directions of the last run, which are given ones to within 8 bits.
  void run_reference() {}
  template <class Context>
  void run(int, int, Context& context) {
    screen_projections(op::ScreenProjectionsArgs{planes_->matrix(),
                                                 directions_.data(),
                                                 {q_.data(), scale_.data(), centre_.data()},
                                                 projections_.data(),
                                                 steps_.data()},
                       context);
  }
  std::string mismatch() {
    for (std::size_t i = 0; i < directions_.size(); ++i)
      if (!(std::abs(direction(i) - static_cast<double>(directions_[i])) <=
            0.501 * static_cast<double>(scale_[i / op::kBlock])))
        return "direction element " + std::to_string(i) + " is " + std::to_string(direction(i)) +
               " instead of " + std::to_string(directions_[i]);
    // Rows of the first and last groups: enough, and soon done.
    for (int row = 0; row < shape_.n_out; row += row < 64 || row > shape_.n_out - 64 ? 1 : 64)
      for (int k = 0; k < kDirections; ++k) {
        double p = 0;
        for (int b = 0; b < n_blocks(); ++b)
          for (int i = 0; i < op::kBlock; ++i)
            p += static_cast<double>(gguf::f32_from_f16(block(row, b).d)) * low(block(row, b), i) *
                 direction(count(k, shape_.n_in) + count(b, op::kBlock) + count(i));
        const auto step = static_cast<double>(steps_[count(row / cpu::kGroup)]);
        const int stored = projections_[count(row, kDirections) + count(k)] - 128;
        if (!(std::abs(p - step * stored) <= static_cast<double>(op::kStepsOff) * step))
          return "row " + std::to_string(row) + ", direction " + std::to_string(k) + ": " +
                 std::to_string(step * stored) + " instead of " + std::to_string(p);
      }
    return "";
  }
  // Padding rows are not part of the result.
  Bits bits() const {
    Bits bits;
    append_bits(bits, projections_.span().first(count(shape_.n_out, kDirections)));
    append_bits(bits, steps_.span());
    return bits;
  }
  bool guards_intact() const {
    return q_.guards_intact() && scale_.guards_intact() && centre_.guards_intact() &&
           projections_.guards_intact() && steps_.guards_intact();
  }
  std::size_t bytes() const {
    return count(shape_.n_out, shape_.n_in) / 2 + 2 * count(shape_.n_out, n_blocks()) +
           count(shape_.n_out, kDirections);
  }

 private:
  static constexpr int kDirections = op::kScreenDirections;
  double direction(std::size_t i) const {
    return static_cast<double>(scale_[i / op::kBlock]) * q_[i];
  }

  Buffer<float> directions_;
  Buffer<std::int8_t> q_;
  Buffer<float> scale_, centre_;
  Buffer<std::uint8_t> projections_;
  Buffer<float> steps_;
};

}  // namespace engine::test
