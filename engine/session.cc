#include <algorithm>
#include <string>
#include <vector>

#include "engine/cpu_ops.h"
#include "engine/engine.h"
#include "engine/sampler.h"
#include "engine/session_access.h"
#include "engine/session_impl.h"

namespace engine {
namespace {

// Rows whose logits are computed together when a text is scored: each pass over the head serves all
// of them.
constexpr int kScoreRows = 8;

}  // namespace

Status non_finite(int position) {
  return Status(Code::non_finite,
                "the model's logits at position " + std::to_string(position) +
                    " hold NaN or infinity: the weights are damaged or the activations overflowed");
}

Status Session::Impl::check_appendable(std::span<const Token> more) const {
  for (std::size_t i = 0; i < more.size(); ++i)
    if (!shared.vocab.contains(more[i]))
      return Status(Code::invalid_argument, "token " + std::to_string(i) +
                                                ": expected an id from 0 to " +
                                                std::to_string(shared.vocab.size() - 1) + ", got " +
                                                std::to_string(more[i]));
  if (more.size() > static_cast<std::size_t>(n_ctx - n_past()))
    return Status(Code::context_full, "the context holds " + std::to_string(n_ctx) + " tokens; " +
                                          std::to_string(n_past()) + " are used and " +
                                          std::to_string(more.size()) + " more do not fit");
  return {};
}

// Runs the layers over one chunk.
Status Session::Impl::forward_chunk(std::span<const Token> chunk, Wanted wanted) {
  std::vector<op::KvRow>& rows = shared.workspace->rows;
  rows.clear();
  const int end = n_past() + static_cast<int>(chunk.size());
  for (int pos = n_past(); pos < end; ++pos) rows.push_back({pos, pos, 0});
  const KvCache* const only = &cache;
  return shared.run_layers(chunk, {&only, 1}, wanted == Wanted::last_row ? 1 : end - n_past());
}

// After this, appending so many tokens allocates nothing.
void Session::Impl::make_room(std::size_t n_more) {
  if (tokens.capacity() - tokens.size() < n_more)
    tokens.reserve(std::max(tokens.size() + n_more, 2 * tokens.size()));
}

// Takes the backend's memory that so many more tokens need; they replace those ahead. On the model's threads.
Status Session::Impl::reserve(int n_more) {
  ahead.clear();
  if (hidden_memory == nullptr) {
    const std::size_t bytes = static_cast<std::size_t>(shared.config.d_model) * sizeof(float);
    ENGINE_ASSIGN(hidden_memory, shared.backend->kv_memory().allocate(bytes));
  }
  return cache.reserve(n_past() + n_more);
}

// Notes that `more` has been evaluated and `hidden` is the last one's, or the last one's ahead.
void Session::Impl::commit(std::span<const Token> more) {
  hidden_valid = ahead.empty();
  logits_valid = false;
  tokens.insert(tokens.end(), more.begin(), more.end());
  cache.drop_behind(n_past());
}

// Gives back what the cache holds for tokens that have not been committed.
void Session::Impl::forget_ahead() {
  ahead.clear();
  cache.trim(n_past());
}

// Appends `more` chunk by chunk; after_chunk(chunk's first index in more, its size, its hidden rows, of
// which the wanted ones are right) runs on the model's threads.
template <class AfterChunk>
Status Session::Impl::evaluate(std::span<const Token> more, Wanted wanted,
                               const AfterChunk& after_chunk) {
  const std::uint32_t n_cancels_before = n_cancels.load();
  ENGINE_TRY(check_appendable(more));
  make_room(more.size());  // first, so that nothing can fail between evaluating and noting it
  for (std::size_t first = 0; first < more.size();) {
    if (n_cancels.load() != n_cancels_before)
      return Status(Code::cancelled, "the evaluation was cancelled");
    const std::span<const Token> chunk =
        more.subspan(first, std::min(more.size() - first, static_cast<std::size_t>(n_chunk)));
    ENGINE_TRY(on_pool([&]() -> Status {
      Backend& backend = *shared.backend;
      ENGINE_TRY(reserve(static_cast<int>(chunk.size())));
      ENGINE_TRY(forward_chunk(chunk, wanted));
      const float* const rows = backend.hidden_rows();
      const std::size_t last = (chunk.size() - 1) * static_cast<std::size_t>(shared.config.d_model);
      hidden_valid = logits_valid = false;
      backend.keep_hidden(rows + last, hidden());
      ENGINE_TRY(after_chunk(first, chunk.size(), rows));
      ENGINE_TRY(backend.wait());
      commit(chunk);
      return {};
    }));
    first += chunk.size();
  }
  return {};
}

Status Session::Impl::append(std::span<const Token> more) {
  return evaluate(more, Wanted::last_row, [](auto...) { return Status(); });
}

// Logits of hidden rows, the first of which is at `position`. On the model's threads.
Status Session::Impl::compute_head(const float* hidden_rows, int n_rows, int position, float* out) {
  ENGINE_ASSIGN(const int bad, shared.run_head(hidden_rows, n_rows, out));
  return bad == n_rows ? Status() : non_finite(position + bad);
}

// Forgets tokens beyond the first n, or more where the cache demands it.
int Session::Impl::rewind(int n) {
  if (n >= n_past()) return n_past();
  ahead.clear();
  const int reached = cache.rewind(n);
  tokens.resize(static_cast<std::size_t>(reached));
  hidden_valid = false;
  logits_valid = false;
  return reached;
}

// Makes sure that `hidden` is the last token's, by evaluating it again if a rewind made it the
// last.
Status Session::Impl::restore_hidden() {
  if (tokens.empty())
    return Status(Code::invalid_argument, "the session is empty: there are no logits yet");
  if (hidden_valid) return {};
  const Token last = tokens.back();
  tokens.pop_back();
  const Status status = append({&last, 1});
  if (!status.ok()) tokens.push_back(last);  // there is room: it was there before
  return status;
}

Status Session::Impl::compute_logits() {
  ENGINE_TRY(restore_hidden());
  if (logits_valid) return {};
  ENGINE_TRY(on_pool([&] {
    logits.resize(static_cast<std::size_t>(shared.config.n_vocab));
    return compute_head(hidden(), 1, n_past() - 1, logits.data());
  }));
  logits_valid = true;
  return {};
}

Result<Token> Session::Impl::sample(const SamplerOptions& options) {
  ENGINE_TRY(check(options));
  Result<Token> token = Status(Code::internal, "no token was chosen");
  const auto candidates =
      candidates_of(options, static_cast<std::uint64_t>(n_past()), shared.most_candidates());
  if (candidates && !logits_valid) {
    ENGINE_TRY(restore_hidden());
    ENGINE_TRY(on_pool([&]() -> Status {
      token = choose(hidden(), *candidates, n_past() - 1);
      return token.status();
    }));
    if (*token != Backend::kAskLogits) return token;
  }
  ENGINE_TRY(compute_logits());
  ENGINE_TRY(on_pool([&]() -> Status {
    token =
        engine::sample(logits, tokens, options, static_cast<std::uint64_t>(n_past()), *shared.pool);
    return token.status();
  }));
  return token;
}

// The backend's choice after the hidden row at `position`, or kAskLogits. On the model's threads.
Result<Token> Session::Impl::choose(const float* hidden_row, const Candidates& candidates,
                                    int position) {
  op::Choice choice = {};
  ENGINE_TRY(shared.backend->choose(hidden_row, 1, candidates.k, shared.vocab.size(),
                                    {&candidates.draw, 1}, {&choice, 1}));
  if (choice.non_finite != 0) return non_finite(position);
  return choice.token;
}

// Appends ln p of next[i] given the hidden row i. On the model's threads.
Status Session::Impl::score_rows(const float* hidden_rows, std::span<const Token> next,
                                 int first_position, std::vector<float>& out) {
  const auto n_vocab = static_cast<std::size_t>(shared.config.n_vocab);
  const auto width = static_cast<std::size_t>(shared.config.d_model);
  std::vector<float> rows(std::min<std::size_t>(kScoreRows, next.size()) * n_vocab);
  float lse[kScoreRows];
  for (std::size_t first = 0; first < next.size(); first += kScoreRows) {
    const int n = static_cast<int>(std::min<std::size_t>(kScoreRows, next.size() - first));
    ENGINE_TRY(compute_head(hidden_rows + first * width, n,
                            first_position + static_cast<int>(first), rows.data()));
    CpuOps(*shared.pool).logsumexp({rows.data(), lse, n, shared.config.n_vocab});
    for (std::size_t t = 0; t < static_cast<std::size_t>(n); ++t)
      out.push_back(rows[t * n_vocab + static_cast<std::size_t>(next[first + t])] - lse[t]);
  }
  return {};
}

Session::Session(std::unique_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;
Session::~Session() = default;

Result<Session> Session::create(const Model& model, const SessionOptions& options) {
  return no_throw([&]() -> Result<Session> {
    const int n_ctx_train = model.impl_->config.n_ctx_train;
    if (options.n_ctx < 0 || options.n_ctx > n_ctx_train)
      return Status(Code::invalid_argument, "n_ctx: expected 1 to " + std::to_string(n_ctx_train) +
                                                ", or 0 for all of it, got " +
                                                std::to_string(options.n_ctx));
    if (options.n_chunk < 0)
      return Status(Code::invalid_argument,
                    "n_chunk: expected 0 or more, got " + std::to_string(options.n_chunk));
    return Session(std::make_unique<Impl>(model, *model.impl_, options));
  });
}

Status Session::decode(std::span<const Token> tokens) {
  return impl_->exclusively([&] { return impl_->append(tokens); });
}

Result<std::span<const float>> Session::logits() {
  return impl_->exclusively([&]() -> Result<std::span<const float>> {
    ENGINE_TRY(impl_->compute_logits());
    return std::span<const float>(impl_->logits);
  });
}

Result<Token> Session::sample(const SamplerOptions& options) {
  return impl_->exclusively([&] { return impl_->sample(options); });
}

Result<std::vector<float>> Session::score(std::span<const Token> tokens) {
  return impl_->exclusively([&]() -> Result<std::vector<float>> {
    std::vector<float> scores;
    if (tokens.empty()) return scores;
    scores.reserve(tokens.size());
    ENGINE_TRY(impl_->check_appendable(tokens));
    if (impl_->n_past() > 0) {
      ENGINE_TRY(impl_->restore_hidden());
      ENGINE_TRY(impl_->on_pool([&] {
        return impl_->score_rows(impl_->hidden(), tokens.first(1), impl_->n_past() - 1, scores);
      }));
    }
    ENGINE_TRY(impl_->evaluate(
        tokens, Impl::Wanted::all_rows, [&](std::size_t first, std::size_t n, const float* rows) {
          const std::size_t n_next =
              std::min(n, tokens.size() - first - 1);  // the last token has no next one
          const int position = impl_->n_past();
          return impl_->score_rows(rows, tokens.subspan(first + 1, n_next), position, scores);
        }));
    return scores;
  });
}

int Session::n_ctx() const noexcept { return impl_->n_ctx; }
int Session::n_past() const noexcept { return impl_->n_past(); }
std::span<const Token> Session::tokens() const noexcept { return impl_->tokens; }
const Model& Session::model() const noexcept { return impl_->model; }

Result<int> Session::rewind(int n_past) {
  return impl_->exclusively([&]() -> Result<int> {
    if (n_past < 0)
      return Status(Code::invalid_argument,
                    "rewind: expected 0 or more, got " + std::to_string(n_past));
    return impl_->rewind(n_past);
  });
}

Result<int> Session::rewind_to_prefix(std::span<const Token> tokens) {
  return impl_->exclusively([&]() -> Result<int> {
    const std::vector<Token>& held = impl_->tokens;
    const std::size_t n = std::min(held.size(), tokens.size());
    const auto end = held.begin() + static_cast<std::ptrdiff_t>(n);
    return impl_->rewind(
        static_cast<int>(std::mismatch(held.begin(), end, tokens.begin()).first - held.begin()));
  });
}

void Session::cancel() noexcept { impl_->n_cancels.fetch_add(1); }

std::uint32_t SessionAccess::n_cancels(const Session& session) noexcept {
  return session.impl_->n_cancels.load();
}
Result<float> SessionAccess::log_prob(Session& session, Token token) {
  Session::Impl& impl = *session.impl_;
  return impl.exclusively([&]() -> Result<float> {
    float lse = 0;
    ENGINE_TRY(impl.on_pool([&] {
      CpuOps(*impl.shared.pool)
          .logsumexp({impl.logits.data(), &lse, 1, impl.shared.config.n_vocab});
      return Status();
    }));
    return impl.logits[static_cast<std::size_t>(token)] - lse;
  });
}
Result<HeadUse> SessionAccess::head_use(Session& session) {
  Session::Impl& impl = *session.impl_;
  return impl.exclusively([&]() -> Result<HeadUse> { return impl.head_use; });
}
int SessionAccess::n_chunk(const Session& session) noexcept { return session.impl_->n_chunk; }

}  // namespace engine
