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
#include "gguf/no_throw.h"

namespace engine {

// The error of logits that hold NaN or infinity.
Status non_finite(int position);

struct Session::Impl {
  Impl(const Model& m, const Model::Impl& shared_, const SessionOptions& options)
      : model(m),
        shared(shared_),
        n_ctx(options.n_ctx == 0 ? shared.config.n_ctx_train : options.n_ctx),
        n_chunk(std::min(options.n_chunk == 0 ? n_ctx : options.n_chunk, shared.most_rows())),
        cache(shared.config, options.kv == KvType::f16 ? op::KvType::f16 : op::KvType::f32,
              shared.backend->kv_memory()) {
    hidden.reserve(static_cast<std::size_t>(shared.config.d_model));
  }

  Model model;  // keeps `shared` alive
  const Model::Impl& shared;
  int n_ctx, n_chunk;
  KvCache cache;
  std::vector<Token> tokens;
  // [d_model] of the last token, as the last layer left it; empty after a rewind.
  std::vector<float> hidden;
  std::vector<float> logits;  // [n_vocab] of the last token, if logits_valid
  bool logits_valid = false;
  std::atomic<std::uint32_t> n_cancels{0};
  std::mutex in_use;

  int n_past() const { return static_cast<int>(tokens.size()); }
  Status check_appendable(std::span<const Token> more) const;
  void make_room(std::size_t n_more);
  void commit(std::span<const Token> more, const float* last_hidden);
  enum class Wanted { last_row, all_rows };
  template <class AfterChunk>
  Status evaluate(std::span<const Token> more, Wanted wanted, const AfterChunk& after_chunk);
  Status append(std::span<const Token> more);
  Status forward_chunk(std::span<const Token> chunk, Wanted wanted);
  int rewind(int n);
  Status restore_hidden();
  Status compute_logits();
  Status compute_head(const float* hidden_rows, int n_rows, int position, float* out);
  Status score_rows(const float* hidden_rows, std::span<const Token> next, int first_position,
                    std::vector<float>& out);

  // Runs fn, which returns Status, as the only user of the session.
  template <class Fn>
  auto exclusively(const Fn& fn) -> decltype(fn()) {
    const std::unique_lock lock(in_use, std::try_to_lock);
    return no_throw([&]() -> decltype(fn()) {
      if (!lock) return Status(Code::busy, "the session is in use on another thread");
      return fn();
    });
  }
  // Runs fn, which returns Status, on the model's threads.
  template <class Fn>
  Status on_pool(const Fn& fn) {
    Status status;
    ENGINE_TRY(shared.pool->run([&] { status = fn(); }));
    return status;
  }
};

}  // namespace engine
