// Where a model's arithmetic runs: the weights, the KV pages and the activations of the pass at work
// live in its memory.
//
// Passes run one at a time, within jobs of the model's pool. Errors of all: out_of_memory; of a device also device
// and device_lost, for anything that failed since the last call that gave results: run_layers() may return before
// its work is done, and hidden_rows() then reports.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "engine/kv_memory.h"
#include "gguf/result.h"
#include "kernels/op/kv_page.h"

namespace engine {

class KvCache;

class Backend {
 public:
  virtual ~Backend() = default;

  // "cpu avx2, 2 threads", as ModelInfo shows it.
  virtual std::string name() const = 0;

  virtual KvMemory& kv_memory() = 0;

  // Runs the layers over tokens[t] at rows[t], whose sequence is an index into `caches`, all of one
  // shape. The last n_wanted rows, 1 to all, are wanted afterwards.
  virtual Status run_layers(std::span<const std::int32_t> tokens, std::span<const op::KvRow> rows,
                            std::span<const KvCache* const> caches, int n_wanted) = 0;
  // [n_rows, d_model], in host memory: the rows of the last run_layers(), of which the wanted ones are
  // right. Valid until the next one.
  virtual Result<const float*> hidden_rows() = 0;
  // logits [n_rows, n_vocab] of hidden rows [n_rows, d_model], both in host memory. hidden_rows() stay as
  // they are.
  virtual Status run_head(const float* hidden, int n_rows, float* logits) = 0;
};

}  // namespace engine
