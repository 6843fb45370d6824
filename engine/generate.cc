// generate(): the loop from a prompt to an answer, on top of the public Session.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <exception>
#include <new>
#include <vector>

#include "engine/draft.h"
#include "engine/engine.h"
#include "engine/sampler.h"
#include "engine/session_access.h"
#include "engine/stop_matcher.h"
#include "gguf/utf8.h"

namespace engine {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

Status check(const GenerateOptions& options) {
  if (options.max_tokens < -1)
    return Status(Code::invalid_argument, "max_tokens is " + std::to_string(options.max_tokens) +
                                              ", expected -1 (no limit) or a number >= 0");
  if (options.n_draft < 0 || options.n_draft > kMostDraft)
    return Status(Code::invalid_argument, "n_draft is " + std::to_string(options.n_draft) +
                                              ", expected 0 to " + std::to_string(kMostDraft));
  for (const std::string& stop : options.stop) {
    if (stop.empty()) return Status(Code::invalid_argument, "a stop string is empty");
    // A stop string that starts or ends inside a character would leave half of it in the text.
    if (!gguf::is_utf8(stop))
      return Status(Code::invalid_argument, "a stop string is not valid UTF-8");
  }
  return {};
}

Status check_prompt(std::span<const Token> prompt, int n_ctx) {
  if (prompt.empty()) return Status(Code::invalid_argument, "the prompt is empty");
  if (prompt.size() > static_cast<std::size_t>(n_ctx))
    return Status(Code::context_full, "the prompt has " + std::to_string(prompt.size()) +
                                          " tokens, the context holds " + std::to_string(n_ctx));
  return {};
}

// One call of generate(). Status::code() `cancelled` of a step ends the answer, not the call.
class Generation {
 public:
  Generation(Session& session, const SamplerOptions& sampler, const GenerateOptions& options,
             const OnToken& on_token)
      : session_(session),
        sampler_(sampler),
        options_(options),
        on_token_(on_token),
        detokenizer_(session.model()),
        stops_(options.stop) {}

  Result<Generated> run(std::span<const Token> prompt) {
    ENGINE_ASSIGN(const HeadUse before, SessionAccess::head_use(session_));
    ENGINE_TRY(finish_if_cancelled(evaluate(prompt)));
    result_.prompt_seconds = seconds_since(start_);
    if (options_.n_draft > 0)
      for (const Token token : prompt) draft_.append(token);
    n_max_ = longest_answer(prompt.size());
    while (!finished_) {
      if (result_.ids.size() == n_max_)
        finish(FinishReason::length);
      else
        ENGINE_TRY(finish_if_cancelled(step()));
    }
    show_rest();
    ENGINE_ASSIGN(const HeadUse after, SessionAccess::head_use(session_));
    if (after.n_full > before.n_full)
      result_.head_share = static_cast<double>(after.n_read - before.n_read) /
                           static_cast<double>(after.n_full - before.n_full);
    result_.total_seconds = seconds_since(start_);
    return std::move(result_);
  }

 private:
  void finish(FinishReason reason) {
    finished_ = true;
    result_.finish_reason = reason;
  }

  Status finish_if_cancelled(Status status) {
    if (status.code() != Code::cancelled) return status;
    finish(FinishReason::cancelled);
    return {};
  }

  // A decode notices a cancel() during itself only; this one notices those before it.
  Status check_cancelled() const {
    if (SessionAccess::n_cancels(session_) == n_cancels_) return {};
    return Status(Code::cancelled, "the session was cancelled");
  }

  std::size_t longest_answer(std::size_t n_prompt) const {
    const std::size_t room = static_cast<std::size_t>(session_.n_ctx()) - n_prompt;
    return options_.max_tokens < 0 ? room
                                   : std::min(room, static_cast<std::size_t>(options_.max_tokens));
  }

  // Keeps what the session holds of the prompt, except its last token: evaluating that one again is
  // what leaves its logits behind.
  Status evaluate(std::span<const Token> prompt) {
    ENGINE_ASSIGN(const int n_held, session_.rewind_to_prefix(prompt.first(prompt.size() - 1)));
    result_.n_prompt = static_cast<int>(prompt.size());
    result_.n_cached = n_held;
    prompt = prompt.subspan(static_cast<std::size_t>(n_held));
    if (!options_.progress) return session_.decode(prompt);
    const auto n_chunk = static_cast<std::size_t>(SessionAccess::n_chunk(session_));
    for (std::size_t n_done = 0; n_done < prompt.size();) {
      const std::size_t n = std::min(n_chunk, prompt.size() - n_done);
      ENGINE_TRY(check_cancelled());
      ENGINE_TRY(session_.decode(prompt.subspan(n_done, n)));
      n_done += n;
      if (!options_.progress(static_cast<double>(n_done) / static_cast<double>(prompt.size())))
        return Status(Code::cancelled, "stopped by the progress callback");
    }
    return {};
  }

  // Chooses the next token and shows it.
  Status step() {
    ENGINE_TRY(check_cancelled());
    float log_prob = 0;
    ENGINE_ASSIGN(const Token token, options_.log_probs    ? next_with_log_prob(log_prob)
                                     : result_.ids.empty() ? session_.sample(sampler_)
                                                           : token_after(result_.ids.back()));
    if (result_.ids.empty()) result_.first_token_seconds = seconds_since(start_);
    if (!options_.ignore_eos && session_.model().is_end_of_generation(token)) {
      finish(FinishReason::stop);
      return {};
    }
    result_.ids.push_back(token);
    if (options_.log_probs) result_.log_probs.push_back(log_prob);
    if (options_.n_draft > 0) draft_.append(token);
    show(token, detokenizer_.push(token));
    return {};
  }

  // The next token, after all logits.
  Result<Token> next_with_log_prob(float& log_prob) {
    if (!result_.ids.empty()) ENGINE_TRY(session_.decode({&result_.ids.back(), 1}));
    ENGINE_TRY(session_.logits().status());
    ENGINE_ASSIGN(const Token token, session_.sample(sampler_));
    ENGINE_ASSIGN(log_prob, SessionAccess::log_prob(session_, token));
    return token;
  }

  // Feeds the model the token chosen last and returns the next one, which a step before may have chosen along
  // with it.
  Result<Token> token_after(Token last) {
    if (n_taken_ < chosen_.size()) {
      ENGINE_ASSIGN(const bool is_ahead, SessionAccess::advance(session_, last));
      if (is_ahead) return chosen_[n_taken_++];
    }
    const std::vector<Token> draft = draft_.propose(longest_draft());
    n_taken_ = 0;
    chosen_.clear();
    ENGINE_ASSIGN(chosen_, SessionAccess::decode_and_sample(session_, last, draft, sampler_));
    const std::size_t n_accepted = chosen_.size() - 1;
    budget_.count(static_cast<int>(draft.size()), static_cast<int>(n_accepted));
    result_.n_drafted += static_cast<int>(draft.size());
    result_.n_accepted += static_cast<int>(n_accepted);
    return chosen_[n_taken_++];
  }

  // One token less than the answer has room for: the last one comes without a draft.
  std::size_t longest_draft() const {
    return std::min(static_cast<std::size_t>(std::min(options_.n_draft, budget_.n_allowed())),
                    n_max_ - result_.ids.size() - 1);
  }

  void show(Token token, std::string_view piece) {
    const std::string text = stops_.push(piece);
    result_.text += text;
    const bool go_on = !on_token_ || on_token_(token, text);
    if (stops_.match() != nullptr) {
      result_.stop_string = *stops_.match();
      finish(FinishReason::stop);
    } else if (!go_on) {
      refused_ = true;
      finish(FinishReason::cancelled);
    }
  }

  // What was held in case more text came.
  void show_rest() {
    std::string rest = stops_.push(detokenizer_.flush());
    rest += stops_.flush();
    result_.text += rest;
    if (on_token_ && !refused_ && !rest.empty()) on_token_(-1, rest);
  }

  Session& session_;
  const SamplerOptions& sampler_;
  const GenerateOptions& options_;
  const OnToken& on_token_;
  Detokenizer detokenizer_;
  StopMatcher stops_;
  const Clock::time_point start_ = Clock::now();
  const std::uint32_t n_cancels_ = SessionAccess::n_cancels(session_);
  std::size_t n_max_ = 0;  // tokens of the answer
  NgramDraft draft_;
  DraftBudget budget_;
  std::vector<Token> chosen_;  // by the last step
  std::size_t n_taken_ = 0;    // of these
  bool finished_ = false;
  bool refused_ = false;  // on_token_ wants no more calls
  Generated result_;
};

}  // namespace

std::string_view name(FinishReason reason) noexcept {
  switch (reason) {
    case FinishReason::stop:
      return "stop";
    case FinishReason::length:
      return "length";
    case FinishReason::cancelled:
      return "cancelled";
  }
  return "unknown";
}

Result<Generated> generate(Session& session, const SamplerOptions& sampler,
                           std::span<const Token> prompt, const GenerateOptions& options,
                           const OnToken& on_token) try {
  ENGINE_TRY(check(sampler));
  ENGINE_TRY(check(options));
  ENGINE_TRY(check_prompt(prompt, session.n_ctx()));
  return Generation(session, sampler, options, on_token).run(prompt);
} catch (const std::bad_alloc&) {
  return Status(Code::out_of_memory, "no memory to generate text");
} catch (const std::exception& e) {
  return Status(Code::cancelled, std::string("a callback threw: ") + e.what());
} catch (...) {
  return Status(Code::cancelled, "a callback threw");
}

}  // namespace engine
