#include "kernels/op/quantize.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

namespace engine::ref {
namespace {

// Float arithmetic on purpose: the quantised values, not their reals, are the contract.
void quantize_block(const float* x, std::int16_t* q, float* scale, std::int32_t* sum16,
                    std::int32_t* product16) {
  // 1 scale
  float amax = 0;
  bool finite = true;
  for (int i = 0; i < op::kBlock; ++i) {
    finite = finite && std::isfinite(x[i]);
    amax = std::max(amax, std::fabs(x[i]));
  }
  const bool nonzero = finite && amax >= op::kQuantMinAmax;
  *scale = nonzero ? amax / op::kQuantMax : finite ? 0 : std::numeric_limits<float>::quiet_NaN();
  // 2 quotients
  int integers[op::kBlock] = {};
  if (nonzero)
    for (int i = 0; i < op::kBlock; ++i)
      integers[i] = static_cast<int>(std::nearbyint(x[i] / *scale));
  // 3 store, with the sums
  std::uint32_t products[op::kBlock / op::kSubSum] = {};
  std::fill_n(sum16, op::kBlock / op::kSubSum, 0);
  for (int i = 0; i < op::kBlock; ++i) {
    q[op::quad_position(i)] = static_cast<std::int16_t>(integers[i]);
    sum16[i / op::kSubSum] += integers[i];
    if (i % 2 == 0)
      products[i / op::kSubSum] += static_cast<std::uint32_t>(integers[i] * integers[i + 1]);
  }
  for (int j = 0; j < op::kBlock / op::kSubSum; ++j)
    product16[j] = static_cast<std::int32_t>(products[j]);
}

}  // namespace

void quantize(const op::QuantizeArgs& a) {
  // A row is a whole number of blocks, so blocks are numbered through all rows.
  const std::ptrdiff_t n_blocks = std::ptrdiff_t{a.n_t} * (a.n_i / op::kBlock);
  for (std::ptrdiff_t b = 0; b < n_blocks; ++b)
    quantize_block(a.x + b * op::kBlock, a.y.q + b * op::kBlock, a.y.scale + b,
                   a.y.sum16 + b * (op::kBlock / op::kSubSum),
                   a.y.product16 + b * (op::kBlock / op::kSubSum));
}

}  // namespace engine::ref
