#include "kernels/op/sample.h"

#include <algorithm>
#include <vector>

#include "kernels/op/math.h"

namespace engine::ref {
namespace {

// Products of two 64-bit numbers; every supported compiler has the type.
__extension__ using Wide = unsigned __int128;

struct Candidate {
  std::uint64_t weight;
  std::int32_t id;
};

std::uint64_t total(const std::vector<Candidate>& candidates) {
  std::uint64_t sum = 0;
  for (const Candidate& c : candidates) sum += c.weight;
  return sum;
}

Wide ceil_product(const op::Draw& draw, std::uint64_t sum) {
  const Wide product = Wide{draw.top_p_mantissa} * sum;
  if (draw.top_p_shift >= 100) return product > 0;
  return (product + (Wide{1} << draw.top_p_shift) - 1) >> draw.top_p_shift;
}

std::int32_t draw_token(const float* values, const std::int32_t* ids, int k, const op::Draw& draw) {
  // 1 weights
  std::vector<Candidate> candidates;
  for (int i = 0; i < k; ++i) {
    const float weight = op::exp<op::Scalar>((values[i] - values[0]) / draw.temperature) * 0x1p32f;
    candidates.push_back({weight >= 1 ? static_cast<std::uint64_t>(weight) : 0, ids[i]});
  }
  // 2 top-p, min-p
  std::sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
    return a.weight != b.weight ? a.weight > b.weight : a.id < b.id;
  });
  const Wide mass = std::max<Wide>(ceil_product(draw, total(candidates)), 1);
  std::vector<Candidate> kept;
  for (const Candidate& c : candidates)
    if (total(kept) < mass) kept.push_back(c);
  std::erase_if(kept, [&](const Candidate& c) { return c.weight < draw.min_weight; });
  // 3 draw
  std::sort(kept.begin(), kept.end(),
            [](const Candidate& a, const Candidate& b) { return a.id < b.id; });
  const auto mark = static_cast<std::uint64_t>((Wide{draw.bits} * total(kept)) >> 64);
  std::uint64_t running = 0;
  for (const Candidate& c : kept) {
    running += c.weight;
    if (running > mark) return c.id;
  }
  return ids[0];
}

}  // namespace

void sample(const op::SampleArgs& a) {
  for (int t = 0; t < a.n_t; ++t) {
    const std::ptrdiff_t first = std::ptrdiff_t{t} * a.k;
    a.choices[t] = {draw_token(a.values + first, a.ids + first, a.k, a.draws[t]), a.non_finite[t]};
  }
}

}  // namespace engine::ref
