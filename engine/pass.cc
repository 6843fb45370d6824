// A pass over the weights, on the CPU backend.
#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>
#include <limits>

#include "engine/cpu_ops.h"
#include "engine/forward.h"
#include "engine/model_impl.h"

namespace engine {
namespace {

// Least work of a kind that is worth waking a thread, about 5 us.
constexpr int kRowsAPart = 8;            // of rope tables: 100 sines and more a row
constexpr int kLogitsAPart = 32 * 1024;  // looked through

bool all_finite(const float* values, int n) {
  // On bits, so that the loop vectorises: an exponent of all ones is infinity or NaN.
  std::uint32_t largest = 0;
  for (int i = 0; i < n; ++i)
    largest = std::max(largest, std::bit_cast<std::uint32_t>(values[i]) & 0x7FFFFFFFu);
  return largest < 0x7F800000u;
}

}  // namespace

void Model::Impl::run_layers(std::span<const Token> tokens, std::span<const KvCache* const> caches,
                             int n_wanted) const {
  Workspace& work = *workspace;
  work.tables.clear();
  for (int l = 0; l < config.n_layers; ++l)
    for (const KvCache* cache : caches) work.tables.push_back(cache->pages(l));
  work.pages.clear();
  for (std::size_t first = 0; first < work.tables.size(); first += caches.size())
    work.pages.push_back({work.tables.data() + first});

  const Batch batch = {tokens, work.rows, caches.front()->shape(), work.pages, n_wanted};
  work.state.reserve(config, batch.n_rows());
  pool->parallel_for(batch.n_rows(), kRowsAPart, [&](int begin, int end) {
    work.state.set_positions(config, work.rows, begin, end);
  });
  CpuOps ops{*pool};
  embed(ops, config, weights, batch, work.state);
  layers(ops, config, weights, batch, work.state, 0, weights.layers.size());
}

int Model::Impl::run_head(const float* hidden, int n_rows, float* logits) const {
  workspace->state.reserve(config, n_rows);
  CpuOps ops{*pool};
  head(ops, config, weights, hidden, n_rows, workspace->state, logits);
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
