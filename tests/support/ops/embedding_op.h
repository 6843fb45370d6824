#pragma once

#include <optional>

#include "kernels/op/embedding.h"
#include "tests/support/kernel_weights.h"
#include "tests/support/ops/float_output.h"

namespace engine::test {

class EmbeddingOp : public FloatOutput {
 public:
  struct Shape {
    gguf::Type type;
    op::Layout layout;  // of a backend that has it; the others and the reference read rows
    int n_vocab, n_i, n_t;
  };

  EmbeddingOp(const Shape& shape, std::uint64_t seed)
      : FloatOutput(count(shape.n_t, shape.n_i)),
        shape_(shape),
        rows_(make_weights(shape.type, shape.n_vocab, shape.n_i)),
        tokens_(count(shape.n_t)) {
    Random random(seed);
    fill_random(rows_, random);
    if (shape.layout != op::Layout::rows) planes_ = pack_planes(rows_, shape.layout);
    for (std::int32_t& token : tokens_) token = random.below(shape.n_vocab);
  }

  int n_t() const { return shape_.n_t; }
  Buffer<std::int32_t>& tokens() { return tokens_; }

  void reset() { y_.poison(); }
  void run_reference() {
    reset();
    ref::embedding(args(rows_, 0, shape_.n_t));
    keep_reference();
  }
  template <class Context>
  void run(int first, int n, Context& context) {
    embedding(args(readable(rows_, planes_, context), first, n), context);
  }
  std::string mismatch() const {
    return compare_output([](std::size_t) { return 0.0; });
  }

  std::size_t bytes() const {
    return rows_.n_bytes() / count(shape_.n_vocab) * count(shape_.n_t) + 4 * y_.size();
  }

 private:
  op::EmbeddingArgs args(const Weights& w, int first, int n) {
    return {w.matrix(), tokens_.data() + first, y_.data() + count(first, shape_.n_i), n,
            static_cast<float>(std::sqrt(shape_.n_i))};
  }

  Shape shape_;
  Weights rows_;
  std::optional<Weights> planes_;
  Buffer<std::int32_t> tokens_;
};

}  // namespace engine::test
