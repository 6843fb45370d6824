// A decode step that checks a draft: a pass over the token chosen last and those drafted after it, and a
// choice after each of them for as long as the choice is what the draft has next. The rows of a pass do not
// influence one another's bits, so that every choice is the one that steps of one token would make.
#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <vector>

#include "engine/session_access.h"
#include "engine/session_impl.h"

namespace engine {
namespace {

using Impl = SessionAccess::Impl;

// Rows whose logits are computed together: with more, their megabyte each would be most of what a session takes.
constexpr int kLogitRows = 4;

// The choices after the rows of a step, in order. The head is the dearest part of a step, and no row after one
// whose choice is not the draft's needs it, so it runs over a few rows at a time.
class Choices {
 public:
  // inputs: the rows' tokens, after those of the session; hidden: [inputs.size(), d_model].
  Choices(const Impl& session, const SamplerOptions& options, std::span<const Token> inputs,
          const float* hidden)
      : session_(session),
        model_(session.shared),
        options_(options),
        inputs_(inputs),
        hidden_(hidden),
        by_backend_(candidates(0).has_value()) {}

  // The token chosen after the next row. On the model's threads.
  Result<Token> next() {
    if (row_ == first_ + n_ready_) ENGINE_TRY(evaluate());
    const std::size_t row = row_++;
    if (!by_backend_) return chosen_from_logits(row);
    const op::Choice& choice = choices_[row - first_];
    if (choice.non_finite != 0) return non_finite(position(row));
    if (choice.token != Backend::kAskLogits) return choice.token;
    const std::size_t n_left = first_ + n_ready_ - row;
    if (row >= logits_end_)
      ENGINE_TRY(evaluate_logits(row, std::min<std::size_t>(n_left, kLogitRows)));
    return chosen_from_logits(row);
  }

 private:
  int position(std::size_t row) const { return session_.n_past() + static_cast<int>(row); }
  std::uint64_t index(std::size_t row) const {
    return static_cast<std::uint64_t>(position(row)) + 1;
  }
  std::optional<Candidates> candidates(std::size_t row) const {
    return candidates_of(options_, index(row), model_.most_candidates());
  }

  // The head of the rows from row_ on.
  Status evaluate() {
    const int at_once = by_backend_ ? model_.backend->choices_at_once() : kLogitRows;
    first_ = row_;
    n_ready_ = std::min(inputs_.size() - first_, static_cast<std::size_t>(at_once));
    return by_backend_ ? evaluate_by_backend() : evaluate_logits(first_, n_ready_);
  }

  const float* hidden(std::size_t row) const {
    return hidden_ + row * static_cast<std::size_t>(model_.config.d_model);
  }

  Status evaluate_by_backend() {
    std::array<op::Draw, Backend::kMostChoices> draws;
    int k = 0;
    for (std::size_t t = 0; t < n_ready_; ++t) {
      const std::optional<Candidates> of_row = candidates(first_ + t);
      k = of_row->k;
      draws[t] = of_row->draw;
    }
    return model_.backend->choose(hidden(first_), static_cast<int>(n_ready_), k,
                                  model_.vocab.size(), std::span(draws).first(n_ready_),
                                  std::span(choices_).first(n_ready_));
  }

  // Logits of n_rows rows from `row` on.
  Status evaluate_logits(std::size_t row, std::size_t n_rows) {
    std::vector<float>& logits = model_.workspace->logits;
    const std::size_t n = n_rows * static_cast<std::size_t>(model_.config.n_vocab);
    if (logits.size() < n) logits.resize(n);
    ENGINE_ASSIGN(const int bad,
                  model_.run_head(hidden(row), static_cast<int>(n_rows), logits.data()));
    logits_first_ = row;
    logits_end_ = row + n_rows;
    finite_end_ = row + static_cast<std::size_t>(bad);
    return {};
  }

  Result<Token> chosen_from_logits(std::size_t row) const {
    if (row >= finite_end_) return non_finite(position(row));
    const auto n_vocab = static_cast<std::size_t>(model_.config.n_vocab);
    const std::span<const float> logits =
        std::span(model_.workspace->logits).subspan((row - logits_first_) * n_vocab, n_vocab);
    std::vector<Token> history = session_.tokens;  // little beside the logits
    history.insert(history.end(), inputs_.begin(),
                   inputs_.begin() + static_cast<std::ptrdiff_t>(row + 1));
    return sample(logits, history, options_, index(row), *model_.pool);
  }

  const Impl& session_;
  decltype(Impl::shared) model_;
  const SamplerOptions& options_;
  std::span<const Token> inputs_;
  const float* hidden_;
  bool by_backend_;
  std::size_t row_ = 0;                  // the next one
  std::size_t first_ = 0, n_ready_ = 0;  // the rows that the head has been run over
  std::array<op::Choice, Backend::kMostChoices> choices_ = {};  // [n_ready_], if by_backend_
  // Rows whose logits were computed last; those before finite_end_ can be used.
  std::size_t logits_first_ = 0, logits_end_ = 0, finite_end_ = 0;
};

bool is_of_later_step(const Status& status) {
  return status.code() == Code::non_finite || status.code() == Code::out_of_memory;
}

}  // namespace

Result<std::vector<Token>> Session::Impl::append_and_sample(Token token,
                                                            std::span<const Token> draft,
                                                            const SamplerOptions& options) {
  // 1 what fits
  ENGINE_TRY(check(options));
  ENGINE_TRY(check_appendable({&token, 1}));
  const int most = std::min(n_ctx - n_past(), shared.most_rows()) - 1;
  draft = draft.first(
      static_cast<std::size_t>(std::min({static_cast<int>(draft.size()), kMostDraft, most})));
  std::vector<Token> inputs = {token};
  inputs.insert(inputs.end(), draft.begin(), draft.end());
  make_room(inputs.size());

  std::vector<Token> chosen;
  Status failure;  // of the first choice, after which the token is held nonetheless
  const Status status = on_pool([&]() -> Status {
    // 2 the pass
    Backend& backend = *shared.backend;
    ENGINE_TRY(reserve(static_cast<int>(inputs.size())));
    ENGINE_TRY(forward_chunk(inputs, Wanted::all_rows));
    const float* const rows = backend.hidden_rows();
    const auto keep = [&](std::size_t row) {
      backend.keep_hidden(rows + row * static_cast<std::size_t>(shared.config.d_model), hidden());
    };
    hidden_valid = logits_valid = false;
    keep(inputs.size() - 1);  // most likely the right one, and waited for with the choices

    // 3 the choices. Where logits are not finite or memory is short after the first one, a step of its own
    // will find so.
    Choices choices(*this, options, inputs, rows);
    do {
      const Result<Token> next = choices.next();
      if (!next && !is_of_later_step(next.status())) return next.status();
      if (!next && chosen.empty()) failure = next.status();
      if (!next) break;
      chosen.push_back(*next);
    } while (chosen.size() < inputs.size() && chosen.back() == inputs[chosen.size()]);
    if (failure.code() == Code::out_of_memory) return failure;

    // 4 what stays
    const std::size_t n_kept = std::max<std::size_t>(chosen.size(), 1);
    if (n_kept < inputs.size()) keep(n_kept - 1);
    ENGINE_TRY(backend.wait());
    ahead.assign(inputs.begin() + 1, inputs.begin() + static_cast<std::ptrdiff_t>(n_kept));
    commit({&token, 1});
    const int n_held = n_past() + static_cast<int>(ahead.size());
    const int n_reserved = n_past() + static_cast<int>(draft.size());
    if (op::n_pages(n_held) < op::n_pages(n_reserved)) cache.trim(n_held);
    return {};
  });
  // A draft must not need memory that a single token does not.
  if (status.code() == Code::out_of_memory && !draft.empty())
    return append_and_sample(token, {}, options);
  ENGINE_TRY(status);
  ENGINE_TRY(failure);
  return chosen;
}

Result<bool> Session::Impl::advance(Token token) {
  if (ahead.empty() || ahead.front() != token) return false;
  ahead.erase(ahead.begin());
  commit({&token, 1});
  return true;
}

Result<std::vector<Token>> SessionAccess::decode_and_sample(Session& session, Token token,
                                                            std::span<const Token> draft,
                                                            const SamplerOptions& options) {
  return session.impl_->exclusively(
      [&] { return session.impl_->append_and_sample(token, draft, options); });
}

Result<bool> SessionAccess::advance(Session& session, Token token) {
  return session.impl_->exclusively([&] { return session.impl_->advance(token); });
}

}  // namespace engine
