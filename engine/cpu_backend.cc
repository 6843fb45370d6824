#include "engine/cpu_backend.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "engine/cpu_ops.h"
#include "engine/forward.h"
#include "engine/head_screen.h"
#include "engine/kv_cache.h"
#include "engine/sampler.h"
#include "kernels/cpu/planes.h"

namespace engine {
namespace {

static_assert(Backend::kMostChoices <= op::kMostScreenRows);

class CpuBackend : public Backend {
 public:
  CpuBackend(const Config& config, Weights weights, cpu::Pool& pool,
             std::unique_ptr<HeadScreen> screen, HeadMode mode)
      : config_(config),
        weights_(std::move(weights)),
        pool_(pool),
        screen_(std::move(screen)),
        mode_(mode),
        angles_(config) {}

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
    count(n_head_bytes(), n_head_bytes());
    return {};
  }

  int most_candidates() const override { return screen_ == nullptr ? 0 : op::kMaxTopLogits; }
  int choices_at_once() const override { return 4; }  // measured: more columns cost as much each
  HeadUse head_use() const override { return use_; }

  Status choose(const float* hidden, int n_rows, int k, int n_ids, std::span<const op::Draw> draws,
                std::span<op::Choice> choices) override {
    ENGINE_TRY(state_.reserve(config_, n_rows));
    CpuOps ops(pool_);
    const Activations& x = state_.get().normed;
    norm(ops, config_, hidden, weights_.output_norm, state_.get().normed, n_rows,
         Reads(weights_.output));
    screen_->run(x.quantized, n_rows, k, n_ids, pool_);
    // Rows are known or not together, but for what is not finite. Where none is, the full head counts its pass.
    count(screen_->n_bytes_read(), screen_->is_known(0) ? n_head_bytes() : 0);
    for (int t = 0; t < n_rows; ++t) {
      const auto row = static_cast<std::size_t>(t);
      const HeadScreen::Best best = screen_->best(t);
      choices[row] = {
          screen_->is_known(t) ? draw_among(best.ids, best.values, draws[row], pool_) : kAskLogits,
          0};
    }
    return mode_ == HeadMode::check ? check(hidden, n_rows, n_ids) : Status();
  }

 private:
  // The last run of the screen against the full head.
  Status check(const float* hidden, int n_rows, int n_ids) {
    const auto n_vocab = static_cast<std::size_t>(config_.n_vocab);
    std::vector<float> logits(n_vocab * static_cast<std::size_t>(n_rows));
    CpuOps ops(pool_);
    head(ops, config_, weights_, hidden, n_rows, state_.get(), logits.data());
    for (int t = 0; t < n_rows; ++t) {
      if (!screen_->is_known(t)) continue;
      const float* const row = logits.data() + static_cast<std::size_t>(t) * n_vocab;
      const HeadScreen::Best best = screen_->best(t);
      if (std::any_of(row, row + n_vocab, op::is_bad_logit))
        return Status(Code::internal,
                      "the screened head has passed over a logit that is not finite");
      std::vector<std::uint64_t> ranks;
      for (int id = 0; id < n_ids; ++id) ranks.push_back(op::logit_rank(row[id], id));
      const auto k = static_cast<std::ptrdiff_t>(best.ids.size());
      std::partial_sort(ranks.begin(), ranks.begin() + k, ranks.end(), std::greater<>());
      for (std::size_t i = 0; i < best.ids.size(); ++i) {
        const int id = op::id_of_rank(ranks[i]);
        if (best.ids[i] != id || best.values[i] != row[id])
          return Status(Code::internal, "the screened head has token " +
                                            std::to_string(best.ids[i]) + " with " +
                                            std::to_string(best.values[i]) + " at place " +
                                            std::to_string(i) + ", expected " + std::to_string(id) +
                                            " with " + std::to_string(row[id]));
      }
    }
    return {};
  }

  std::uint64_t n_head_bytes() const { return cpu::planes_bytes(weights_.output); }
  void count(std::uint64_t n_read, std::uint64_t n_full) {
    use_.n_read += n_read;
    use_.n_full += n_full;
  }

  const Config& config_;
  Weights weights_;
  cpu::Pool& pool_;
  std::unique_ptr<HeadScreen> screen_;  // null: the head is always the full one
  HeadMode mode_;
  HeadUse use_;
  RopeAngles angles_;
  HostMemory memory_;
  HostState state_;
  std::vector<std::byte* const*> tables_;  // [n_layers, n_sequences]
  std::vector<op::KvPages> pages_;         // [n_layers]
};

}  // namespace

Result<std::unique_ptr<Backend>> make_cpu_backend(const Config& config, Weights weights,
                                                  cpu::Pool& pool, HeadMode head) {
  std::unique_ptr<HeadScreen> screen;
  if (head != HeadMode::full && HeadScreen::fits(weights.output)) {
    ENGINE_ASSIGN(screen, HeadScreen::create(weights.output, pool));
  }
  return std::unique_ptr<Backend>(
      std::make_unique<CpuBackend>(config, std::move(weights), pool, std::move(screen), head));
}

}  // namespace engine
