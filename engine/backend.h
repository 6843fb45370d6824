// Where a model's arithmetic runs: the weights, what sequences keep, and the activations of the pass at
// work live in its memory.
//
// Passes run one at a time, within jobs of the model's pool. run_layers() and keep_hidden() may return
// before their work is done; the other calls wait for it. Errors of all: out_of_memory; of a device also
// device and device_lost, for anything that failed since the last call that waited.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "engine/kv_memory.h"
#include "gguf/result.h"
#include "kernels/op/kv_page.h"
#include "kernels/op/sample.h"

namespace engine {

class KvCache;

// Passes over the head: bytes that they read, and that they would have read of the full one. Zeros where nobody
// counts.
struct HeadUse {
  std::uint64_t n_read = 0, n_full = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;

  // "cpu avx2, 2 threads", as ModelInfo shows it.
  virtual std::string name() const = 0;

  // Rows of a pass, at most.
  virtual int most_rows() const = 0;
  virtual KvMemory& kv_memory() = 0;

  // Runs the layers over tokens[t] at rows[t], whose sequence is an index into `caches`, all of one
  // shape. The last n_wanted rows, 1 to all, are wanted afterwards.
  virtual Status run_layers(std::span<const std::int32_t> tokens, std::span<const op::KvRow> rows,
                            std::span<const KvCache* const> caches, int n_wanted) = 0;
  // [n_rows, d_model], in the backend's memory: the rows of the last run_layers(), of which the wanted
  // ones are right. Valid until the next one.
  virtual const float* hidden_rows() const = 0;
  // Copies a row, [d_model], within the backend's memory.
  virtual void keep_hidden(const float* row, float* to) = 0;
  virtual Status wait() = 0;

  // Rows that run_head() takes, at most.
  static constexpr int kMostHeadRows = 16;
  // logits [n_rows, n_vocab], in host memory, of hidden rows [n_rows, d_model] in the backend's.
  // hidden_rows() stay as they are.
  virtual Status run_head(const float* hidden, int n_rows, float* logits) = 0;
  // Rows that choose() takes, at most.
  static constexpr int kMostChoices = 8;
  // What op/sample.h draws among the k best tokens below n_ids of each of n_rows hidden rows, by draws[t],
  // where the backend samples itself: 1 <= n_rows <= kMostChoices, 1 <= k <= most_candidates(). Every row as
  // if alone. Where it cannot tell without all logits, choices[t].token is kAskLogits.
  static constexpr std::int32_t kAskLogits = -1;
  virtual Status choose(const float* /*hidden_rows*/, int /*n_rows*/, int /*k*/, int /*n_ids*/,
                        std::span<const op::Draw> /*draws*/, std::span<op::Choice> /*choices*/) {
    return Status(Code::internal, "this backend does not sample");
  }
  virtual int most_candidates() const { return 0; }
  // Rows for which choose() takes least time a row.
  virtual int choices_at_once() const { return kMostChoices; }
  virtual HeadUse head_use() const { return {}; }  // so far
};

}  // namespace engine
