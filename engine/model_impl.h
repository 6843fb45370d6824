// What a Model holds. Internal to the engine.
#pragma once

#include <algorithm>
#include <limits>
#include <memory>
#include <span>
#include <string>

#include "engine/config.h"
#include "engine/engine.h"
#include "engine/kv_cache.h"
#include "engine/state.h"
#include "engine/weights.h"
#include "kernels/cpu/pool.h"
#include "tokenizer/chat.h"
#include "tokenizer/vocab.h"

namespace engine {

struct Model::Impl {
  Config config;
  tokenizer::Vocab vocab;
  std::unique_ptr<cpu::Pool> pool;
  Weights weights;
  ModelInfo info;
  SamplerOptions sampler;
  LogSink log;
  std::unique_ptr<Workspace> workspace = std::make_unique<Workspace>();

  // Rows of a batch whose largest buffer still has fewer elements than an int counts.
  int most_rows() const {
    const Config& c = config;
    return std::numeric_limits<int>::max() / std::max({c.d_model, c.d_ff, c.n_heads * c.head_dim});
  }

  void warn(std::string_view line) const {
    if (log) log(LogLevel::warning, line);
  }

  // The two halves of a pass, in pass.cc. Call them within a job of the pool; they throw
  // std::bad_alloc.
  //
  // Runs the layers over tokens[t] at workspace->rows[t], whose sequence is an index into `caches`,
  // all of one shape. Afterwards workspace->state.x holds the hidden rows, of which the last n_wanted
  // are right.
  void run_layers(std::span<const Token> tokens, std::span<const KvCache* const> caches,
                  int n_wanted) const;
  // logits [n_rows, n_vocab] of hidden rows [n_rows, d_model]; ids without a token get minus
  // infinity. Returns the first row that holds NaN or infinity, n_rows if none does. Overwrites
  // workspace->state.normed.
  int run_head(const float* hidden, int n_rows, float* logits) const;
};

}  // namespace engine
