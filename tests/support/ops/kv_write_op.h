#pragma once

#include "kernels/op/kv_write.h"
#include "tests/support/kv_pages.h"
#include "tests/support/ops/float_output.h"
#include "tests/support/random.h"

namespace engine::test {

class KvWriteOp {
 public:
  struct Shape {
    op::KvShape kv;
    std::vector<op::KvRow> rows;
    int n_sequences, n_positions;
    std::size_t misalign = 0;  // of k and v
  };

  KvWriteOp(Shape shape, std::uint64_t seed)
      : shape_(std::move(shape)),
        rows_(shape_.rows.size()),
        k_(shape_.rows.size() * row_size(), shape_.misalign),
        v_(k_.size(), shape_.misalign),
        pages_(shape_.kv, shape_.n_sequences, shape_.n_positions) {
    std::copy(shape_.rows.begin(), shape_.rows.end(), rows_.begin());
    Random random(seed);
    random.fill_normal(k_);
    random.fill_normal(v_);
  }

  int n_t() const { return static_cast<int>(shape_.rows.size()); }
  Buffer<float>& k() { return k_; }
  Buffer<float>& v() { return v_; }
  const TestPages& pages() const { return pages_; }

  void reset() { pages_.poison(); }
  void run_reference() {
    reset();
    ref::kv_write(args(0, n_t()));
    expected_ = bits();
  }
  template <class Context>
  void run(int first, int n, Context& context) {
    kv_write(args(first, n), context);
  }
  std::string mismatch() const {
    if (!pages_.guards_intact()) return "written outside a page";
    return compare_bits(expected_, bits());
  }
  // Whole pages: also what must not have been written.
  Bits bits() const {
    Bits bits;
    for (const Buffer<std::byte>& page : pages_.storage()) append_bits(bits, page.span());
    return bits;
  }
  bool guards_intact() const { return pages_.guards_intact(); }
  std::size_t bytes() const { return (4 + shape_.kv.element_bytes()) * 2 * k_.size(); }

 private:
  std::size_t row_size() const { return count(shape_.kv.n_kv, shape_.kv.d); }

  op::KvWriteArgs args(int first, int n) {
    const std::size_t offset = count(first) * row_size();
    return {k_.data() + offset, v_.data() + offset,   shape_.kv,
            pages_.pages(),     rows_.data() + first, n};
  }

  Shape shape_;
  Buffer<op::KvRow> rows_;
  Buffer<float> k_, v_;
  TestPages pages_;
  Bits expected_;
};

}  // namespace engine::test
