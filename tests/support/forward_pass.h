// A model and one sequence, run through forward.h on a pool and by ops of the caller's choice: for
// what the public interface hides, such as parallel regions and the time of an op.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "engine/forward.h"
#include "engine/kv_cache.h"
#include "gguf/reader.h"
#include "kernels/cpu/pool.h"

namespace engine::test {

class ForwardPass {
 public:
  // Reads the weights on the threads of `pool`. Errors: those of a broken file.
  static Result<ForwardPass> load(const gguf::Reader& file, cpu::Pool& pool) {
    ENGINE_ASSIGN(Config config, Config::from_file(file));
    ENGINE_ASSIGN(const TensorTable table, TensorTable::from_file(file, config));
    ENGINE_ASSIGN(Weights weights, Weights::load(file, table, pool, {}));
    return ForwardPass(std::move(config), std::move(weights));
  }

  const Config& config() const { return config_; }
  const Weights& weights() const { return weights_; }
  std::span<const float> logits() const { return logits_; }

  // Empties the sequence.
  void clear() {
    cache_ = KvCache(config_, op::KvType::f16, *memory_);
    n_past_ = 0;
  }
  // Before the tokens are evaluated; outside a job. Errors: out_of_memory.
  Status append(std::span<const std::int32_t> tokens) {
    ENGINE_TRY(cache_.reserve(n_past_ + static_cast<int>(tokens.size())));
    tokens_.assign(tokens.begin(), tokens.end());
    rows_.clear();
    for (std::size_t t = 0; t < tokens.size(); ++t)
      rows_.push_back({n_past_, n_past_, 0}), ++n_past_;
    tables_.clear();
    for (int l = 0; l < config_.n_layers; ++l) tables_.push_back(cache_.pages(l).data());
    pages_.clear();
    for (auto& table : tables_) pages_.push_back({&table});
    const int n_rows = static_cast<int>(rows_.size());
    ENGINE_TRY(state_.reserve(config_, n_rows));
    angles_.fill(rows_, 0, n_rows, state_.get().rope_global, state_.get().rope_local);
    return {};
  }
  // Evaluates the tokens appended last; within a job.
  template <ForwardOps Ops>
  void layers(Ops& ops) {
    const Batch batch = {tokens_, rows_, cache_.shape(), pages_, 1};
    engine::embed(ops, config_, weights_, batch, state_.get());
    engine::layers(ops, config_, weights_, batch, state_.get(), 0, weights_.layers.size());
  }
  // logits() of the last row; within a job.
  template <ForwardOps Ops>
  void head(Ops& ops) {
    const float* last_row =
        state_.get().x + static_cast<std::ptrdiff_t>(rows_.size() - 1) * config_.d_model;
    engine::head(ops, config_, weights_, last_row, 1, state_.get(), logits_.data());
  }

 private:
  ForwardPass(Config config, Weights weights)
      : config_(std::move(config)),
        weights_(std::move(weights)),
        angles_(config_),
        cache_(config_, op::KvType::f16, *memory_),
        logits_(static_cast<std::size_t>(config_.n_vocab)) {}

  Config config_;
  Weights weights_;
  RopeAngles angles_;
  std::unique_ptr<HostMemory> memory_ = std::make_unique<HostMemory>();
  KvCache cache_;
  HostState state_;
  std::vector<std::int32_t> tokens_;       // [n_rows]
  std::vector<op::KvRow> rows_;            // [n_rows]
  std::vector<std::byte* const*> tables_;  // [n_layers]
  std::vector<op::KvPages> pages_;         // [n_layers]
  std::vector<float> logits_;              // [n_vocab]
  int n_past_ = 0;
};

}  // namespace engine::test
