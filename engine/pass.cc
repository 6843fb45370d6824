// A pass over the weights: the backend's work, and what is done with its results wherever they come from.
#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>
#include <limits>

#include "engine/model_impl.h"

namespace engine {
namespace {

constexpr int kLogitsAPart = 32 * 1024;  // looked through, about 5 us: worth waking a thread

bool all_finite(const float* values, int n) {
  // On bits, so that the loop vectorises: an exponent of all ones is infinity or NaN.
  std::uint32_t largest = 0;
  for (int i = 0; i < n; ++i)
    largest = std::max(largest, std::bit_cast<std::uint32_t>(values[i]) & 0x7FFFFFFFu);
  return largest < 0x7F800000u;
}

}  // namespace

Status Model::Impl::run_layers(std::span<const Token> tokens,
                               std::span<const KvCache* const> caches, int n_wanted) const {
  return backend->run_layers(tokens, workspace->rows, caches, n_wanted);
}

Result<int> Model::Impl::run_head(const float* hidden, int n_rows, float* logits) const {
  ENGINE_TRY(backend->run_head(hidden, n_rows, logits));
  std::atomic<bool> finite = true;
  pool->parallel_for(n_rows * config.n_vocab, kLogitsAPart, [&](int begin, int end) {
    if (!all_finite(logits + begin, end - begin)) finite = false;
  });
  for (int t = 0; t < n_rows; ++t) {
    float* row = logits + std::ptrdiff_t{t} * config.n_vocab;
    if (!finite && !all_finite(row, config.n_vocab)) return t;
    std::fill(row + vocab.size(), row + config.n_vocab, -std::numeric_limits<float>::infinity());
  }
  return n_rows;
}

}  // namespace engine
