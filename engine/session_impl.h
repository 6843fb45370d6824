// What a Session holds. Internal to the engine.
#pragma once

#include <algorithm>
#include <atomic>
#include <mutex>
#include <span>
#include <vector>

#include "engine/engine.h"
#include "engine/kv_cache.h"
#include "engine/model_impl.h"
#include "engine/sampler.h"
#include "gguf/no_throw.h"

namespace engine {

static_assert(kMostDraft < Backend::kMostChoices);  // a step's last row has a choice, too

// The error of logits that hold NaN or infinity.
Status non_finite(int position);

struct Session::Impl {
  Impl(const Model& m, const Model::Impl& shared_, const SessionOptions& options)
      : model(m),
        shared(shared_),
        n_ctx(options.n_ctx == 0 ? shared.config.n_ctx_train : options.n_ctx),
        n_chunk(std::min(options.n_chunk == 0 ? n_ctx : options.n_chunk, shared.most_rows())),
        cache(shared.config, options.kv == KvType::f16 ? op::KvType::f16 : op::KvType::f32,
              shared.backend->kv_memory()) {}

  Model model;  // keeps `shared` alive
  const Model::Impl& shared;
  int n_ctx, n_chunk;
  KvCache cache;
  std::vector<Token> tokens;
  // Tokens that may come next, and whose keys and values the cache holds, too; `hidden` is the last one's.
  // None, once anything else is evaluated.
  std::vector<Token> ahead;
  Slab hidden_memory;         // of `hidden`, from the first evaluation on
  bool hidden_valid = false;  // not after a rewind, nor while there are tokens `ahead`
  HeadUse head_use;           // of this session's jobs; a batch's are of its first session
  std::vector<float> logits;  // [n_vocab] of the last token, if logits_valid
  bool logits_valid = false;
  Status broken;  // the device's error that left this session's cache in an unknown state
  std::atomic<std::uint32_t> n_cancels{0};
  std::mutex in_use;

  int n_past() const { return static_cast<int>(tokens.size()); }
  Status check_appendable(std::span<const Token> more) const;
  // [d_model] of the last token, as the last layer left it, in the backend's memory.
  float* hidden() const { return reinterpret_cast<float*>(hidden_memory.get()); }
  void make_room(std::size_t n_more);
  Status reserve(int n_more);
  void commit(std::span<const Token> more);
  void forget_ahead();
  enum class Wanted { last_row, all_rows };
  template <class AfterChunk>
  Status evaluate(std::span<const Token> more, Wanted wanted, const AfterChunk& after_chunk);
  Status append(std::span<const Token> more);
  Status forward_chunk(std::span<const Token> chunk, Wanted wanted);
  int rewind(int n);
  Status restore_hidden();
  Status compute_logits();
  Result<Token> sample(const SamplerOptions& options);
  Result<std::vector<Token>> append_and_sample(Token token, std::span<const Token> draft,
                                               const SamplerOptions& options);
  Result<bool> advance(Token token);
  Result<Token> choose(const float* hidden_row, const Candidates& candidates, int position);
  Status compute_head(const float* hidden_rows, int n_rows, int position, float* out);
  Status score_rows(const float* hidden_rows, std::span<const Token> next, int first_position,
                    std::vector<float>& out);

  // Runs fn, which returns Status, as the only user of the session.
  template <class Fn>
  auto exclusively(const Fn& fn) -> decltype(fn()) {
    const std::unique_lock lock(in_use, std::try_to_lock);
    return no_throw([&]() -> decltype(fn()) {
      if (!lock) return Status(Code::busy, "the session is in use on another thread");
      if (!broken.ok()) return broken;
      auto result = fn();
      note_failure(status_of(result));
      return result;
    });
  }
  void note_failure(const Status& status) {
    if (status.code() == Code::device || status.code() == Code::device_lost) broken = status;
  }
  static const Status& status_of(const Status& status) { return status; }
  template <class T>
  static const Status& status_of(const Result<T>& result) {
    return result.status();
  }
  // Runs fn, which returns Status, on the model's threads. What it has begun on a device is done
  // afterwards, so that its failure is nobody else's.
  template <class Fn>
  Status on_pool(const Fn& fn) {
    Status status;
    const auto run = [&] {
      const HeadUse before = shared.backend->head_use();
      status = no_throw(fn);
      const HeadUse after = shared.backend->head_use();
      head_use.n_read += after.n_read - before.n_read;
      head_use.n_full += after.n_full - before.n_full;
      if (status.ok()) return;
      if (Status pending = shared.backend->wait(); !pending.ok()) status = std::move(pending);
    };
    ENGINE_TRY(
        shared.pool->run([&run] { run(); }));  // small enough for std::function not to allocate
    return status;
  }
};

}  // namespace engine
