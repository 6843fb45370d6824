#include "engine/cpu_backend.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "engine/cpu_ops.h"
#include "engine/forward.h"
#include "engine/kv_cache.h"

namespace engine {
namespace {

class CpuBackend : public Backend {
 public:
  CpuBackend(const Config& config, Weights weights, cpu::Pool& pool)
      : config_(config), weights_(std::move(weights)), pool_(pool), angles_(config) {}

  std::string name() const override {
    return "cpu " + std::string(cpu::name(pool_.isa())) + ", " + std::to_string(pool_.n_threads()) +
           (pool_.n_threads() == 1 ? " thread" : " threads");
  }

  int most_rows() const override { return std::numeric_limits<int>::max(); }
  KvMemory& kv_memory() override { return memory_; }

  Status run_layers(std::span<const std::int32_t> tokens, std::span<const op::KvRow> rows,
                    std::span<const KvCache* const> caches, int n_wanted) override {
    tables_.clear();
    for (int l = 0; l < config_.n_layers; ++l)
      for (const KvCache* cache : caches) tables_.push_back(cache->pages(l).data());
    pages_.clear();
    for (std::size_t first = 0; first < tables_.size(); first += caches.size())
      pages_.push_back({tables_.data() + first});

    const Batch batch = {tokens, rows, caches.front()->shape(), pages_, n_wanted};
    ENGINE_TRY(state_.reserve(config_, batch.n_rows()));
    State& state = state_.get();
    pool_.parallel_for(batch.n_rows(), RopeAngles::kRowsAPart, [&](int begin, int end) {
      angles_.fill(rows, begin, end, state.rope_global, state.rope_local);
    });
    CpuOps ops(pool_);
    embed(ops, config_, weights_, batch, state);
    layers(ops, config_, weights_, batch, state, 0, weights_.layers.size());
    return {};
  }

  const float* hidden_rows() const override { return state_.get().x; }
  void keep_hidden(const float* row, float* to) override { std::copy_n(row, config_.d_model, to); }
  Status wait() override { return {}; }

  Status run_head(const float* hidden, int n_rows, float* logits) override {
    ENGINE_TRY(state_.reserve(config_, n_rows));
    CpuOps ops(pool_);
    head(ops, config_, weights_, hidden, n_rows, state_.get(), logits);
    return {};
  }

 private:
  const Config& config_;
  Weights weights_;
  cpu::Pool& pool_;
  RopeAngles angles_;
  HostMemory memory_;
  HostState state_;
  std::vector<std::byte* const*> tables_;  // [n_layers, n_sequences]
  std::vector<op::KvPages> pages_;         // [n_layers]
};

}  // namespace

std::unique_ptr<Backend> make_cpu_backend(const Config& config, Weights weights, cpu::Pool& pool) {
  return std::make_unique<CpuBackend>(config, std::move(weights), pool);
}

}  // namespace engine
