#pragma once

#include <algorithm>
#include <cmath>

#include "kernels/op/sample.h"
#include "tests/support/buffer.h"
#include "tests/support/compare.h"
#include "tests/support/ops/float_output.h"
#include "tests/support/random.h"

namespace engine::test {

class SampleOp {
 public:
  struct Shape {
    int n_t, k;
  };

  SampleOp(const Shape& shape, std::uint64_t seed)
      : shape_(shape),
        values_(count(shape.n_t, shape.k)),
        ids_(values_.size()),
        non_finite_(count(shape.n_t)),
        draws_(count(shape.n_t)),
        choices_(count(shape.n_t)) {
    Random random(seed);
    for (float& v : values_) v = random.uniform(-9, 9);
    for (int t = 0; t < shape.n_t; ++t) {
      const std::size_t first = count(t, shape.k);
      std::sort(values_.begin() + first, values_.begin() + first + shape.k, std::greater<>());
      non_finite_[count(t)] = t % 2 == 1 ? 1u : 0u;
      draws_[count(t)] = {random.uniform(0.2f, 2), 0xE66666u, 24, 0, random.bits()};
    }
    // All different, in no order.
    for (std::size_t i = 0; i < ids_.size(); ++i)
      ids_[i] = static_cast<std::int32_t>(i * 7919 % 262144);
  }

  int n_t() const { return shape_.n_t; }
  Buffer<float>& values() { return values_; }
  Buffer<std::int32_t>& ids() { return ids_; }
  Buffer<op::Draw>& draws() { return draws_; }
  op::Choice choice(int t) const { return choices_[count(t)]; }

  void reset() { choices_.poison(); }
  void run_reference() {
    reset();
    ref::sample(args(0, shape_.n_t));
  }
  template <class Stream>
  void run(int first, int n, Stream& stream) {
    sample(args(first, n), stream);
  }
  bool guards_intact() const { return choices_.guards_intact(); }
  Bits bits() const {
    Bits bits;
    for (const op::Choice& c : choices_) {
      bits.push_back(static_cast<std::uint32_t>(c.token));
      bits.push_back(c.non_finite);
    }
    return bits;
  }

 private:
  op::SampleArgs args(int first, int n) {
    const std::size_t at = count(first, shape_.k);
    return {values_.data() + at,
            ids_.data() + at,
            non_finite_.data() + first,
            draws_.data() + first,
            choices_.data() + first,
            n,
            shape_.k};
  }

  Shape shape_;
  Buffer<float> values_;
  Buffer<std::int32_t> ids_;
  Buffer<std::uint32_t> non_finite_;
  Buffer<op::Draw> draws_;
  Buffer<op::Choice> choices_;
};

}  // namespace engine::test
