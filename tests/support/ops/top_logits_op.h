#pragma once

#include "kernels/op/top_logits.h"
#include "tests/support/buffer.h"
#include "tests/support/compare.h"
#include "tests/support/ops/float_output.h"
#include "tests/support/random.h"

namespace engine::test {

class TopLogitsOp {
 public:
  struct Shape {
    int n_t, n_vocab, k;
    int n_ids = 0;             // 0: n_vocab
    std::size_t misalign = 0;  // of the logits
  };

  TopLogitsOp(const Shape& shape, std::uint64_t seed)
      : shape_(shape),
        logits_(count(shape.n_t, shape.n_vocab), shape.misalign),
        ids_(count(shape.n_t, shape.k)),
        values_(ids_.size()),
        non_finite_(count(shape.n_t)),
        spans_(count(shape.n_t, op::n_logit_spans(shape.n_vocab, op::kLeastLogitSpan))) {
    Random random(seed);
    random.fill_normal(logits_, 7);
  }

  int n_t() const { return shape_.n_t; }
  Buffer<float>& logits() { return logits_; }
  std::uint32_t non_finite(int t) const { return non_finite_[count(t)]; }
  std::int32_t id(int t, int i) const { return ids_[count(t, shape_.k) + count(i)]; }

  void reset() { ids_.poison(), values_.poison(), non_finite_.poison(), spans_.poison(); }
  void run_reference() {
    reset();
    ref::top_logits(args(0, shape_.n_t));
  }
  template <class Stream>
  void run(int first, int n, Stream& stream) {
    top_logits(args(first, n), stream);
  }
  bool guards_intact() const {
    return ids_.guards_intact() && values_.guards_intact() && non_finite_.guards_intact() &&
           spans_.guards_intact();
  }
  Bits bits() const {
    Bits bits;
    append_bits(bits, ids_.span());
    append_bits(bits, values_.span());
    append_bits(bits, non_finite_.span());
    return bits;
  }

 private:
  op::TopLogitsArgs args(int first, int n) {
    return {logits_.data() + count(first, shape_.n_vocab),
            ids_.data() + count(first, shape_.k),
            values_.data() + count(first, shape_.k),
            non_finite_.data() + first,
            n,
            shape_.n_vocab,
            shape_.n_ids == 0 ? shape_.n_vocab : shape_.n_ids,
            shape_.k,
            spans_.data()};
  }

  Shape shape_;
  Buffer<float> logits_;
  Buffer<std::int32_t> ids_;
  Buffer<float> values_;
  Buffer<std::uint32_t> non_finite_;
  Buffer<op::LogitSpan> spans_;
};

}  // namespace engine::test
