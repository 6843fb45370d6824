#pragma once

#include "kernels/op/ffn_gate_up.h"
#include "kernels/op/geglu.h"
#include "tests/support/ops/matmul_op.h"

namespace engine::test {

// The CPU backend runs the chain, devices the fused op.
class FfnGateUpOp : public FloatOutput {
 public:
  struct Shape {
    gguf::Type gate, up;
    op::Layout layout;  // of the device's matrices
    int n_out, n_in, n_t;
  };

  FfnGateUpOp(const Shape& shape, std::uint64_t seed)
      : FloatOutput(count(shape.n_t, shape.n_out)),
        shape_(shape),
        gate_({shape.gate, shape.layout, shape.n_out, shape.n_in, shape.n_t}, seed),
        up_({shape.up, shape.layout, shape.n_out, shape.n_in, shape.n_t}, seed + 1) {
    // One input for both; up has activations of its own, which are not read.
    std::copy(gate_.x().begin(), gate_.x().end(), up_.x().begin());
    up_.prepare();
  }

  int n_t() const { return shape_.n_t; }
  MatmulOp& gate() { return gate_; }

  void reset() {
    y_.poison();
    gate_.reset();
    up_.reset();
  }
  void run(int first, int n, cpu::Pool& pool) {
    gate_.run(first, n, pool);
    up_.run(first, n, pool);
    cpu::geglu({gate_.args(first, n, pool).y, up_.args(first, n, pool).y,
                y_.data() + count(first, shape_.n_out), count(n, shape_.n_out)},
               pool);
  }
  template <class Stream>
  void run(int first, int n, Stream& stream) {
    op::FfnGateUpArgs args{gate_.args(first, n, stream), up_.args(first, n, stream),
                           y_.data() + count(first, shape_.n_out)};
    args.up.xq = args.gate.xq;
    args.up.x = args.gate.x;
    ffn_gate_up(args, stream);
  }
  bool guards_intact() const {
    return FloatOutput::guards_intact() && gate_.guards_intact() && up_.guards_intact();
  }

 private:
  Shape shape_;
  MatmulOp gate_, up_;
};

}  // namespace engine::test
