#pragma once

#include "kernels/op/head_logits.h"
#include "tests/support/ops/matmul_op.h"

namespace engine::test {

// With top_logits() after it, whose results it is for. The CPU backend runs matmul() and the reference.
class HeadLogitsOp {
 public:
  struct Shape {
    gguf::Type type;
    op::Layout layout;  // of the device's matrix
    int n_vocab, n_ids, n_in, k;
  };

  HeadLogitsOp(const Shape& shape, std::uint64_t seed)
      : shape_(shape),
        matmul_({shape.type, shape.layout, shape.n_vocab, shape.n_in, 1}, seed),
        spans_(count(op::n_logit_spans(shape.n_vocab, op::kLeastLogitSpan))),
        ids_(count(shape.k)),
        values_(ids_.size()),
        non_finite_(1) {}

  int n_t() const { return 1; }
  MatmulOp& matmul() { return matmul_; }

  void reset() {
    matmul_.reset();
    spans_.poison(), ids_.poison(), values_.poison(), non_finite_.poison();
  }
  void run(int first, int n, cpu::Pool& pool) {
    matmul_.run(first, n, pool);
    ref::top_logits(top(matmul_.args(first, n, pool).y, 0));
  }
  template <class Stream>
  void run(int first, int n, Stream& stream) {
    const op::MatmulArgs args = matmul_.args(first, n, stream);
    const int span = head_logits({args, shape_.n_ids, spans_.data()}, stream);
    top_logits(top(args.y, span), stream);
  }
  bool guards_intact() const {
    return matmul_.guards_intact() && spans_.guards_intact() && ids_.guards_intact() &&
           values_.guards_intact() && non_finite_.guards_intact();
  }
  Bits bits() const {
    Bits bits = matmul_.bits();
    append_bits(bits, ids_.span());
    append_bits(bits, values_.span());
    append_bits(bits, non_finite_.span());
    return bits;
  }

 private:
  op::TopLogitsArgs top(const float* logits, int span) {
    return {logits,         ids_.data(),  values_.data(), non_finite_.data(), 1,
            shape_.n_vocab, shape_.n_ids, shape_.k,       spans_.data(),      span};
  }

  Shape shape_;
  MatmulOp matmul_;
  Buffer<op::LogitSpan> spans_;
  Buffer<std::int32_t> ids_;
  Buffer<float> values_;
  Buffer<std::uint32_t> non_finite_;
};

}  // namespace engine::test
