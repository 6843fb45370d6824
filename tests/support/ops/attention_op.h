#pragma once

#include "kernels/op/attention.h"
#include "tests/support/kv_pages.h"
#include "tests/support/ops/float_output.h"
#include "tests/support/random.h"

namespace engine::test {

// Only the slots that some row sees hold values; all others are NaN, and pages without any are
// dropped.
class AttentionOp : public FloatOutput {
 public:
  struct Shape {
    op::KvShape kv;
    int n_h;
    int window;
    std::vector<op::KvRow> rows;
    std::size_t misalign = 0;  // of q and out
    int n_splits = 1;          // on devices
  };

  AttentionOp(Shape shape, std::uint64_t seed)
      : FloatOutput(count(static_cast<int>(shape.rows.size()), shape.n_h, shape.kv.d),
                    shape.misalign),
        shape_(std::move(shape)),
        rows_(shape_.rows.size()),
        q_(y_.size(), shape_.misalign),
        pages_(shape_.kv, n_sequences(), n_positions()),
        split_(shape_.n_splits, n_tiles(), ahead(), count(n_t(), shape_.n_h), shape_.kv.d) {
    std::copy(shape_.rows.begin(), shape_.rows.end(), rows_.begin());
    Random random(seed);
    // Scores of random keys then have variance 1, as with the model's 1/sqrt(d).
    random.fill_normal(q_, 1 / std::sqrt(static_cast<float>(shape_.kv.d)));
    fill_visible(random);
  }

  int n_t() const { return static_cast<int>(shape_.rows.size()); }
  Buffer<float>& q() { return q_; }
  TestPages& pages() { return pages_; }
  // out[t, h, i] of the last run.
  float out(int t, int h, int i) const {
    return y_[count(t, shape_.n_h, shape_.kv.d) + count(h, shape_.kv.d) + count(i)];
  }
  int first_visible(const op::KvRow& row) const {
    return shape_.window > 0 ? std::max(0, row.pos - shape_.window + 1) : 0;
  }

  void reset() {
    y_.poison();
    split_.reset();
  }
  void run_reference() {
    reset();
    ref::attention(args(0, n_t()));
    keep_reference();
  }
  template <class Context>
  void run(int first, int n, Context& context) {
    attention(args(first, n), context);
  }
  std::string mismatch() const {
    const std::vector<double> head_tolerances = tolerances();
    return compare_output([&](std::size_t i) { return head_tolerances[i / count(shape_.kv.d)]; });
  }
  // Rows of a sequence share its keys: each counts once.
  std::size_t bytes() const {
    std::vector<int> first(count(n_sequences()), n_positions()), end(first.size());
    for (const op::KvRow& row : shape_.rows) {
      const std::size_t s = count(row.sequence);
      first[s] = std::min(first[s], first_visible(row));
      end[s] = std::max(end[s], row.attend_until + 1);
    }
    std::size_t keys = 0;
    for (std::size_t s = 0; s < first.size(); ++s) keys += count(std::max(0, end[s] - first[s]));
    return keys * 2 * count(shape_.kv.n_kv, shape_.kv.d) * shape_.kv.element_bytes();
  }
  static constexpr bool kFloatMultiply = true;
  std::size_t multiply_adds() const {
    std::size_t keys = 0;
    for (const op::KvRow& row : shape_.rows)
      keys += count(row.attend_until + 1 - first_visible(row));
    return keys * 2 * count(shape_.n_h, shape_.kv.d);
  }

  bool guards_intact() const { return FloatOutput::guards_intact() && split_.is_clean(); }

 private:
  // Where the blocks of a split hand their tiles over.
  class Split {
   public:
    Split(int n, int max_tiles, int ahead, std::size_t n_queries, int d)
        : n_(n),
          max_tiles_(max_tiles),
          ahead_(ahead),
          sums_(n > 1 ? n_queries * count(max_tiles, 2) : 0),
          values_(n > 1 ? n_queries * count(max_tiles, d) : 0),
          arrivals_(n > 1 ? n_queries : 0) {}
    void reset() {
      sums_.poison(), values_.poison();
      std::fill(arrivals_.begin(), arrivals_.end(), 0u);
    }
    op::AttentionSplit split() {
      return {n_, max_tiles_, ahead_, sums_.data(), values_.data(), arrivals_.data()};
    }
    // Nothing written outside, and ready for the next call.
    bool is_clean() const {
      return sums_.guards_intact() && values_.guards_intact() && arrivals_.guards_intact() &&
             std::all_of(arrivals_.begin(), arrivals_.end(), [](unsigned n) { return n == 0; });
    }

   private:
    int n_, max_tiles_, ahead_;
    Buffer<float> sums_, values_;
    Buffer<unsigned> arrivals_;
  };

  op::AttentionArgs args(int first, int n) {
    const std::size_t offset = count(first, shape_.n_h, shape_.kv.d);
    return {q_.data() + offset,   shape_.kv,          pages_.pages(),
            rows_.data() + first, y_.data() + offset, n,
            shape_.n_h,           shape_.window,      split_.split()};
  }

  int ahead() const {
    int most = 0;
    for (const op::KvRow& row : shape_.rows) most = std::max(most, row.attend_until - row.pos);
    return most;
  }
  int n_sequences() const {
    int n = 1;
    for (const op::KvRow& row : shape_.rows) n = std::max(n, row.sequence + 1);
    return n;
  }
  // The most that a row sees.
  int n_tiles() const {
    int n = 0;
    for (const op::KvRow& row : shape_.rows)
      n = std::max(n, row.attend_until / op::kPage - first_visible(row) / op::kPage + 1);
    return n;
  }
  int n_positions() const {
    int n = 1;
    for (const op::KvRow& row : shape_.rows) n = std::max(n, row.attend_until + 1);
    return n;
  }

  void fill_visible(Random& random) {
    const int n_pages = (n_positions() + op::kPage - 1) / op::kPage;
    std::vector<bool> is_used(count(n_sequences(), n_pages));
    for (const op::KvRow& row : shape_.rows) {
      for (int pos = first_visible(row); pos <= row.attend_until; ++pos) {
        is_used[count(row.sequence, n_pages) + count(pos / op::kPage)] = true;
        fill_position(row.sequence, pos, random);
      }
    }
    for (int s = 0; s < n_sequences(); ++s)
      for (int page = 0; page < n_pages; ++page)
        if (!is_used[count(s, n_pages) + count(page)]) pages_.drop(s, page);
  }
  void fill_position(int sequence, int pos, Random& random) {
    if (!std::isnan(pages_.k(sequence, pos, 0, 0))) return;  // another row sees it too
    for (int h = 0; h < shape_.kv.n_kv; ++h) {
      for (int i = 0; i < shape_.kv.d; ++i) {
        pages_.set_k(sequence, pos, h, i, random.normal());
        pages_.set_v(sequence, pos, h, i, random.normal());
      }
    }
  }

  // Of each (row, head): the roundings of the sums, and the error ds of a score, which changes a
  // weight and their sum by that fraction each.
  std::vector<double> tolerances() const {
    std::vector<double> tolerances;
    for (int t = 0; t < n_t(); ++t)
      for (int h = 0; h < shape_.n_h; ++h) tolerances.push_back(tolerance(t, h));
    return tolerances;
  }
  double tolerance(int t, int h) const {
    const op::KvRow& row = shape_.rows[count(t)];
    const float* q = q_.data() + count(t, shape_.n_h, shape_.kv.d) + count(h, shape_.kv.d);
    const int kv_head = h / (shape_.n_h / shape_.kv.n_kv);
    double max_v = 0, max_ds = 0;
    for (int pos = first_visible(row); pos <= row.attend_until; ++pos) {
      double size = 0;
      for (int i = 0; i < shape_.kv.d; ++i) {
        size += std::abs(static_cast<double>(q[i]) *
                         static_cast<double>(pages_.k(row.sequence, pos, kv_head, i)));
        max_v =
            std::max(max_v, std::abs(static_cast<double>(pages_.v(row.sequence, pos, kv_head, i))));
      }
      max_ds = std::max(max_ds, 0x1p-24 * (64 + 4) * size);
    }
    return (0x1p-24 * 64 + 2 * max_ds) * max_v;
  }

  Shape shape_;
  Buffer<op::KvRow> rows_;
  Buffer<float> q_;
  TestPages pages_;
  Split split_;
};

}  // namespace engine::test
