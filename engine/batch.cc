// decode_batch(): one token of several sessions in one pass over the weights.
#include <algorithm>
#include <cstddef>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "engine/session_access.h"
#include "engine/session_impl.h"

namespace engine {
namespace {

using Impl = SessionAccess::Impl;

// Rows whose logits are computed together before they go to their sessions.
constexpr std::size_t kHeadRows = Backend::kMostHeadRows;

Status of_session(std::size_t i, const Status& status) {
  return Status(status.code(), "session " + std::to_string(i) + ": " + status.message());
}

Status invalid_session(std::size_t i, const char* what) {
  return of_session(i, Status(Code::invalid_argument, what));
}

// Each session once.
Status check_list(std::span<Session* const> sessions, std::size_t n_tokens) {
  if (sessions.size() != n_tokens)
    return Status(Code::invalid_argument, std::to_string(sessions.size()) + " sessions, but " +
                                              std::to_string(n_tokens) + " tokens");
  for (std::size_t i = 0; i < sessions.size(); ++i)
    if (sessions[i] == nullptr || SessionAccess::impl(*sessions[i]) == nullptr)
      return invalid_session(i, "null or moved from");
  std::vector<const Session*> sorted(sessions.begin(), sessions.end());
  std::sort(sorted.begin(), sorted.end(), std::less<>());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice == sorted.end()) return {};
  const auto first = std::find(sessions.begin(), sessions.end(), *twice);
  return invalid_session(static_cast<std::size_t>(first - sessions.begin()), "is listed twice");
}

class BatchStep {
 public:
  // At least one session.
  BatchStep(std::span<Session* const> sessions, std::span<const Token> tokens)
      : model_(SessionAccess::impl(*sessions[0])->shared), tokens_(tokens) {
    for (Session* session : sessions) {
      Impl* impl = SessionAccess::impl(*session);
      sessions_.push_back(impl);
      caches_.push_back(&impl->cache);
      n_cancels_.push_back(impl->n_cancels.load());
    }
  }

  Status run() {
    if (sessions_.size() > static_cast<std::size_t>(model_.most_rows()))
      return Status(Code::invalid_argument, std::to_string(sessions_.size()) +
                                                " sessions, but a batch has at most " +
                                                std::to_string(model_.most_rows()));
    ENGINE_TRY(lock());
    ENGINE_TRY(check());
    Status status = sessions_[0]->on_pool([&] {
      Status evaluated = evaluate();
      if (!evaluated.ok()) give_back_room();
      return evaluated;
    });
    for (Impl* session : sessions_) session->note_failure(status);
    return status;
  }

 private:
  // Never waits, so that lists which overlap cannot wait for each other.
  Status lock() {
    for (std::size_t i = 0; i < sessions_.size(); ++i) {
      locks_.emplace_back(sessions_[i]->in_use, std::try_to_lock);
      if (!locks_.back()) return of_session(i, Status(Code::busy, "is in use on another thread"));
    }
    return {};
  }

  Status check() const {
    for (std::size_t i = 0; i < sessions_.size(); ++i) {
      const Impl& session = *sessions_[i];
      if (!session.broken.ok()) return of_session(i, session.broken);
      if (&session.shared != &model_)
        return invalid_session(i, "is of another model than session 0");
      if (session.cache.shape().type != sessions_[0]->cache.shape().type)
        return invalid_session(i, "has another KvType than session 0");
      const Status status = session.check_appendable(tokens_.subspan(i, 1));
      if (!status.ok()) return of_session(i, status);
    }
    return {};
  }

  // Whatever may fail for lack of memory, before anything changes.
  Status make_room() {
    for (std::size_t i = 0; i < sessions_.size(); ++i) {
      sessions_[i]->make_room(1);
      sessions_[i]->logits.resize(static_cast<std::size_t>(model_.config.n_vocab));
      const Status status = sessions_[i]->reserve(1);
      if (!status.ok()) return of_session(i, status);
    }
    return {};
  }

  void give_back_room() {
    for (Impl* session : sessions_) session->forget_ahead();
  }

  Status check_cancelled() const {
    for (std::size_t i = 0; i < sessions_.size(); ++i)
      if (sessions_[i]->n_cancels.load() != n_cancels_[i])
        return of_session(i, Status(Code::cancelled, "was cancelled"));
    return {};
  }

  // On the model's threads.
  Status evaluate() {
    ENGINE_TRY(check_cancelled());  // other sessions' jobs may have come first
    ENGINE_TRY(make_room());
    std::vector<op::KvRow>& rows = model_.workspace->rows;
    rows.clear();
    for (std::size_t i = 0; i < sessions_.size(); ++i) {
      const int pos = sessions_[i]->n_past();
      rows.push_back({pos, pos, static_cast<int>(i)});
    }
    ENGINE_TRY(model_.run_layers(tokens_, caches_, static_cast<int>(tokens_.size())));
    hidden_ = model_.backend->hidden_rows();
    ENGINE_TRY(check_cancelled());
    for (std::size_t first = 0; first < sessions_.size(); first += kHeadRows)
      ENGINE_TRY(compute_logits(first, std::min(kHeadRows, sessions_.size() - first)));
    for (std::size_t i = 0; i < sessions_.size(); ++i)
      model_.backend->keep_hidden(hidden_row(i), sessions_[i]->hidden());
    ENGINE_TRY(model_.backend->wait());
    for (std::size_t i = 0; i < sessions_.size(); ++i) {
      sessions_[i]->commit(tokens_.subspan(i, 1));
      sessions_[i]->logits_valid = true;
    }
    return {};
  }

  const float* hidden_row(std::size_t i) const {
    return hidden_ + i * static_cast<std::size_t>(model_.config.d_model);
  }

  // Of n sessions from `first` on. Should a later step fail, a session computes its former logits
  // again from its hidden row, which is still the former one.
  Status compute_logits(std::size_t first, std::size_t n) {
    const auto n_vocab = static_cast<std::size_t>(model_.config.n_vocab);
    std::vector<float>& shared = model_.workspace->logits;
    if (n > 1 && shared.size() < n * n_vocab) shared.resize(n * n_vocab);
    for (std::size_t i = first; i < first + n; ++i) sessions_[i]->logits_valid = false;
    float* out = n == 1 ? sessions_[first]->logits.data() : shared.data();
    const int n_rows = static_cast<int>(n);
    ENGINE_ASSIGN(const int bad, model_.run_head(hidden_row(first), n_rows, out));
    if (bad != n_rows) {
      const std::size_t i = first + static_cast<std::size_t>(bad);
      return of_session(i, non_finite(sessions_[i]->n_past()));
    }
    if (n == 1) return {};
    model_.pool->parallel_for(n_rows, 1, [&](int begin, int end) {
      for (auto t = static_cast<std::size_t>(begin); t < static_cast<std::size_t>(end); ++t)
        std::copy_n(shared.data() + t * n_vocab, n_vocab, sessions_[first + t]->logits.data());
    });
    return {};
  }

  decltype(Impl::shared) model_;
  std::span<const Token> tokens_;
  std::vector<Impl*> sessions_;
  std::vector<const KvCache*> caches_;
  const float* hidden_ = nullptr;         // [n_sessions, d_model] of this step
  std::vector<std::uint32_t> n_cancels_;  // of each session when the call began
  std::vector<std::unique_lock<std::mutex>> locks_;
};

}  // namespace

Status decode_batch(std::span<Session* const> sessions, std::span<const Token> tokens) {
  return no_throw([&]() -> Status {
    ENGINE_TRY(check_list(sessions, tokens.size()));
    if (sessions.empty()) return {};
    return BatchStep(sessions, tokens).run();
  });
}

}  // namespace engine
