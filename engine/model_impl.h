// What a Model holds. Internal to the engine.
#pragma once

#include <algorithm>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/backend.h"
#include "engine/config.h"
#include "engine/engine.h"
#include "engine/kv_cache.h"
#include "kernels/cpu/pool.h"
#include "tokenizer/chat.h"
#include "tokenizer/vocab.h"

namespace engine {

// What passes over the weights share: those of all sessions of a model run one at a time.
struct Workspace {
  std::vector<op::KvRow> rows;  // of the batch
  std::vector<float> logits;    // of rows whose logits are computed together
};

struct Model::Impl {
  Config config;
  tokenizer::Vocab vocab;
  std::unique_ptr<cpu::Pool> pool;
  std::unique_ptr<Backend> backend;
  ModelInfo info;
  SamplerOptions sampler;
  LogSink log;
  std::unique_ptr<Workspace> workspace = std::make_unique<Workspace>();

  // Rows of a batch that the backend takes, and whose largest buffer has fewer elements than an int counts.
  int most_rows() const {
    const Config& c = config;
    return std::min(
        backend->most_rows(),
        std::numeric_limits<int>::max() / std::max({c.d_model, c.d_ff, c.n_heads * c.head_dim}));
  }

  // The k of a Candidates that the backend takes, at most.
  int most_candidates() const { return std::min(backend->most_candidates(), vocab.size()); }

  void warn(std::string_view line) const {
    if (log) log(LogLevel::warning, line);
  }

  // The two halves of a pass, in pass.cc. Call them within a job of the pool; they may throw
  // std::bad_alloc.
  //
  // The backend's, of the rows that workspace->rows describes.
  Status run_layers(std::span<const Token> tokens, std::span<const KvCache* const> caches,
                    int n_wanted) const;
  // The backend's, too, for at most kMostHeadRows rows; ids without a token get minus infinity. Returns
  // the first row that holds NaN or infinity, n_rows if none does.
  Result<int> run_head(const float* hidden, int n_rows, float* logits) const;
};

}  // namespace engine
