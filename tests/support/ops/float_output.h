// What the op objects have in common.
//
// An op object owns random inputs and the outputs of one op at one shape, for tests and benchmarks:
//
//   run_reference()          fills what mismatch() expects
//   reset()                  before a run: outputs unwritten, inputs of in-place ops restored
//   run(first, n, context)   the backend of a cpu::Pool (within Pool::run), cuda::Stream or simt::Stream on
//                            rows first .. first+n-1 of n_t(); found by the context's namespace
//   string mismatch()        "" if the last run agrees with the reference as the contract demands
//   Bits bits()              the last run's results, to the bit
//   bool guards_intact()     false if a run wrote outside of them
//   size_t bytes()           memory that a run has to move, for a benchmark's GB/s
//
// and, where the op is made of them, for its GOP/s:
//
//   size_t multiply_adds()   of a run
//   kFloatMultiply           is there if they are of floats, not of integers
#pragma once

#include "tests/support/buffer.h"
#include "tests/support/compare.h"

namespace engine::test {

// Base of ops with a single array of floats as their result.
class FloatOutput {
 public:
  void keep_reference() { expected_.assign(y_.begin(), y_.end()); }
  Bits bits() const {
    Bits bits;
    append_bits(bits, y_.span());
    return bits;
  }
  bool guards_intact() const { return y_.guards_intact(); }

 protected:
  explicit FloatOutput(std::size_t n, std::size_t misalign = 0) : y_(n, misalign) {}

  template <class Tolerance>
  std::string compare_output(Tolerance tolerance) const {
    if (!guards_intact()) return "written outside the output";
    return compare(expected_, y_.span(), tolerance);
  }
  double expected(std::size_t i) const { return static_cast<double>(expected_[i]); }

  Buffer<float> y_;

 private:
  std::vector<float> expected_;
};

inline std::size_t count(int a, int b = 1, int c = 1) {
  return static_cast<std::size_t>(a) * static_cast<std::size_t>(b) * static_cast<std::size_t>(c);
}

}  // namespace engine::test
