#include "kernels/op/attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "gguf/types.h"

namespace engine::ref {
namespace {

// One KV head of one sequence.
struct Head {
  const op::KvShape& shape;
  const std::byte* const* table;  // the sequence's pages
  int h;

  double k(int pos, int i) const {
    return load(page(pos), (std::ptrdiff_t{h} * shape.d + i) * op::kPage + pos % op::kPage);
  }
  double v(int pos, int i) const {
    return load(page(pos) + shape.part_bytes(),
                (std::ptrdiff_t{h} * op::kPage + pos % op::kPage) * shape.d + i);
  }

 private:
  const std::byte* page(int pos) const { return table[pos / op::kPage]; }

  double load(const std::byte* part, std::ptrdiff_t index) const {
    if (shape.type == op::KvType::f32) {
      float value;
      std::memcpy(&value, part + 4 * index, 4);
      return static_cast<double>(value);
    }
    std::uint16_t half;
    std::memcpy(&half, part + 2 * index, 2);
    return static_cast<double>(gguf::f32_from_f16(half));
  }
};

// out[d] of one query head over the visible keys first..last.
void attend(const float* q, const Head& kv, int first, int last, float* out) {
  // 1 scores
  std::vector<double> p;
  for (int pos = first; pos <= last; ++pos) {
    double score = 0;
    for (int i = 0; i < kv.shape.d; ++i) score += static_cast<double>(q[i]) * kv.k(pos, i);
    p.push_back(score);
  }
  // 2 weights
  const double m = *std::max_element(p.begin(), p.end());
  double l = 0;
  for (double& weight : p) {
    weight = std::exp(weight - m);
    l += weight;
  }
  // 3 values
  for (int i = 0; i < kv.shape.d; ++i) {
    double o = 0;
    for (int pos = first; pos <= last; ++pos)
      o += p[static_cast<std::size_t>(pos - first)] * kv.v(pos, i);
    // 5 quotient (one tile of all keys: there is no 4 merge)
    out[i] = static_cast<float>(o / l);
  }
}

}  // namespace

void attention(const op::AttentionArgs& a) {
  for (int t = 0; t < a.n_t; ++t) {
    const op::KvRow& row = a.rows[t];
    const int first = a.window > 0 ? std::max(0, row.pos - a.window + 1) : 0;
    for (int h = 0; h < a.n_h; ++h) {
      const std::ptrdiff_t offset = (std::ptrdiff_t{t} * a.n_h + h) * a.shape.d;
      const Head kv{a.shape, a.pages.tables[row.sequence], h / (a.n_h / a.shape.n_kv)};
      attend(a.q + offset, kv, first, row.attend_until, a.out + offset);
    }
  }
}

}  // namespace engine::ref
