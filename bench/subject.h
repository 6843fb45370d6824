// An op object of tests/support/ops as a benchmark runs it: checked against its reference first.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/roofline.h"
#include "kernels/cpu/pool.h"
#include "tests/support/compare.h"

namespace engine::bench {

enum class Source { memory, cache };  // where a run finds its weights and inputs

// What a run has to do.
struct Work {
  std::size_t bytes = 0;
  std::size_t multiply_adds = 0;  // 0: the op is not made of them
  Multiply kind = Multiply::int16;
  Source source = Source::cache;
};

class Subject {
 public:
  virtual ~Subject() = default;
  // "" if a run on this pool gives the right result, else what is wrong with it. The pool must
  // outlive the subject, which checks it once.
  virtual std::string check(cpu::Pool& pool) = 0;
  // One run, in a job of the pool.
  virtual void run(cpu::Pool& pool) = 0;
  virtual Work work() const = 0;
};

// Equal ops, run in turn: with enough of them, each finds its data only in memory.
template <class Op>
class Rotation : public Subject {
 public:
  // One op if it is to find its data in the cache, else as many as move `least_bytes` together.
  Rotation(const typename Op::Shape& shape, Source source, std::size_t least_bytes)
      : source_(source) {
    ops_.push_back(std::make_unique<Op>(shape, kSeed));
    if (source == Source::cache) return;
    for (std::size_t bytes = ops_.front()->bytes(); bytes < least_bytes;
         bytes += ops_.front()->bytes())
      ops_.push_back(another(shape));
  }

  // Only the first result is compared with the reference; all others must have its bits.
  std::string check(cpu::Pool& pool) override {
    if (std::find(checked_.begin(), checked_.end(), &pool) != checked_.end()) return "";
    if (!reference_bits_) ops_.front()->run_reference();
    for (const auto& op : ops_) {
      op->reset();
      const Status status = pool.run([&] { op->run(0, op->n_t(), pool); });
      if (!status.ok()) return status.message();
      std::string wrong =
          reference_bits_ ? test::compare_bits(*reference_bits_, op->bits()) : op->mismatch();
      if (!wrong.empty()) return wrong;
      if (!reference_bits_) reference_bits_ = op->bits();
    }
    checked_.push_back(&pool);
    return "";
  }

  void run(cpu::Pool& pool) override {
    Op& op = *ops_[next_];
    next_ = next_ + 1 == ops_.size() ? 0 : next_ + 1;
    op.run(0, op.n_t(), pool);
  }

  Work work() const override {
    const Op& op = *ops_.front();
    Work work{.bytes = op.bytes(), .source = source_};
    if constexpr (requires { op.multiply_adds(); }) work.multiply_adds = op.multiply_adds();
    if constexpr (requires { Op::kFloatMultiply; }) work.kind = Multiply::fp32;
    return work;
  }

 private:
  static constexpr std::uint64_t kSeed = 1;

  // Copying is faster than drawing and packing the same values again.
  std::unique_ptr<Op> another(const typename Op::Shape& shape) const {
    if constexpr (std::copy_constructible<Op>)
      return std::make_unique<Op>(*ops_.front());
    else
      return std::make_unique<Op>(shape, kSeed);
  }

  Source source_;
  std::vector<std::unique_ptr<Op>> ops_;
  std::size_t next_ = 0;
  std::optional<test::Bits> reference_bits_;
  std::vector<const cpu::Pool*> checked_;
};

}  // namespace engine::bench
