// Drafts change nothing but the speed: what generate() gives, what its callbacks hear and find in the session,
// and what the session is worth afterwards are the same with and without them. On tiny models, which soon
// repeat themselves, for the bits; and on a backend that has learned a text by heart for everything that can
// happen within an accepted draft.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "engine/session_access.h"
#include "engine/session_impl.h"
#include "kernels/op/sample.h"
#include "tests/support/model_file.h"
#include "tests/support/same_bits.h"
#include "tests/support/sessions.h"
#include "tests/support/tiny_model.h"

namespace engine {
namespace {

using test::same_bits;
using test::some_tokens;
using Tokens = std::vector<Token>;

const SamplerOptions kGreedy = {.temperature = 0};

// What a callback was told, and what it found in the session.
struct Heard {
  Token token;
  std::string text;
  int n_past;
  bool operator==(const Heard&) const = default;
};

// A call of generate() and the session it leaves.
struct Outcome {
  Result<Generated> answer = Status(Code::internal, "not run");
  std::vector<Heard> heard;
  Tokens tokens;
};

// Called for every token with its index; false ends the answer.
using Reaction = std::function<bool(Session&, std::size_t)>;

Outcome outcome(Session& session, const SamplerOptions& sampler, const Tokens& prompt,
                GenerateOptions options, int n_draft, const Reaction& react = {}) {
  Outcome result;
  options.n_draft = n_draft;
  result.answer =
      generate(session, sampler, prompt, options, [&](Token token, std::string_view text) {
        result.heard.push_back({token, std::string(text), session.n_past()});
        return !react || react(session, result.heard.size() - 1);
      });
  result.tokens.assign(session.tokens().begin(), session.tokens().end());
  return result;
}

void expect_same(const Outcome& a, const Outcome& b) {
  EXPECT_EQ(a.answer.status().code(), b.answer.status().code());
  EXPECT_EQ(a.answer.status().message(), b.answer.status().message());
  EXPECT_EQ(a.tokens, b.tokens);
  EXPECT_EQ(a.heard, b.heard);
  if (!a.answer || !b.answer) return;
  EXPECT_EQ(a.answer->ids, b.answer->ids);
  EXPECT_EQ(a.answer->text, b.answer->text);
  EXPECT_EQ(a.answer->finish_reason, b.answer->finish_reason);
  EXPECT_EQ(a.answer->stop_string, b.answer->stop_string);
  EXPECT_EQ(a.answer->n_prompt, b.answer->n_prompt);
  EXPECT_EQ(a.answer->n_cached, b.answer->n_cached);
}

// --- bits -----------------------------------------------------------------------------------------

class Drafts : public testing::Test {
 protected:
  Session session(const SessionOptions& options = {}) const {
    return Session::create(model_, options).value();
  }

  // Runs both, compares all there is, and returns how many drafted tokens were accepted.
  int compare(const SamplerOptions& sampler, const Tokens& prompt, const GenerateOptions& options,
              const Reaction& react = {}, const SessionOptions& session_options = {}) const {
    Session with = session(session_options), without = session(session_options);
    const Outcome drafted = outcome(with, sampler, prompt, options, kMostDraft, react);
    const Outcome plain = outcome(without, sampler, prompt, options, 0, react);
    expect_same(drafted, plain);
    compare_after(with, without, sampler);
    EXPECT_FALSE(plain.answer && plain.answer->n_drafted > 0);
    return drafted.answer ? drafted.answer->n_accepted : 0;
  }

  static void expect_same_choice(Session& a, Session& b, const SamplerOptions& sampler) {
    const Result<Token> of_a = a.sample(sampler), of_b = b.sample(sampler);
    ASSERT_TRUE(of_a && of_b) << of_a.status().message() << of_b.status().message();
    EXPECT_EQ(*of_a, *of_b);
  }
  // What sessions give from now on.
  static void compare_after(Session& a, Session& b, const SamplerOptions& sampler) {
    if (a.n_past() == 0 || b.n_past() == 0) return;
    expect_same_choice(a, b, sampler);
    EXPECT_TRUE(same_bits(test::logits_of(a), test::logits_of(b)));
    for (const Tokens& more : {Tokens{20}, Tokens{21, 22, 23}}) {
      if (a.n_ctx() - a.n_past() < static_cast<int>(more.size())) return;
      EXPECT_TRUE(a.decode(more).ok());
      EXPECT_TRUE(b.decode(more).ok());
      EXPECT_TRUE(same_bits(test::logits_of(a), test::logits_of(b)));
    }
  }

  Model model_ =
      Model::load(test::golden_file("tiny/tiny-nano-F32.gguf"), {.n_threads = 1}).value();
  const Tokens prompt_ = [] {
    Tokens prompt;
    for (int i = 0; i < 5; ++i)
      for (const Token token : some_tokens(9)) prompt.push_back(token);
    return prompt;
  }();
};

TEST_F(Drafts, ChangeNoTokenOfAnySampler) {
  std::vector<SamplerOptions> samplers = {
      kGreedy,
      {.temperature = 0.02f},
      {.temperature = 0.1f, .top_k = 3},
      {.temperature = 0.02f, .top_k = 0, .top_p = 1},
      {.temperature = 0.05f, .min_p = 0.05f},
      {.temperature = 0, .repeat_penalty = 1.02f, .penalty_window = 3},
      {.temperature = 0.02f, .repeat_penalty = 1.001f},
      {.temperature = 0.02f, .presence_penalty = -0.1f, .frequency_penalty = -0.01f},
      {.temperature = 0.02f, .frequency_penalty = 0.0001f, .penalty_window = -1},
      {.temperature = 1}};
  for (SamplerOptions& sampler : samplers) {
    int n_accepted = 0;
    for (sampler.seed = 1; sampler.seed <= 3; ++sampler.seed) {
      SCOPED_TRACE(&sampler - samplers.data());
      n_accepted += compare(sampler, prompt_, {.max_tokens = 120, .ignore_eos = true});
    }
    EXPECT_TRUE(n_accepted > 20 || sampler.temperature == 1)
        << n_accepted << " of sampler " << &sampler - samplers.data();
  }
}

TEST_F(Drafts, EndWhereTheAnswerDoes) {
  int n_accepted = 0;
  for (int n = 0; n <= 40; ++n) {
    SCOPED_TRACE(n);
    n_accepted += compare(kGreedy, prompt_, {.max_tokens = n, .ignore_eos = true});
    n_accepted += compare(kGreedy, prompt_, {.ignore_eos = true}, {},
                          {.n_ctx = static_cast<int>(prompt_.size()) + n});
  }
  EXPECT_GT(n_accepted, 200);
}

TEST_F(Drafts, AreCutByAStopString) {
  const GenerateOptions plain = {.max_tokens = 100, .ignore_eos = true};
  Session other = session();
  const std::string text = generate(other, kGreedy, prompt_, plain)->text;
  std::set<std::string> stops;
  for (std::size_t at = 0; at + 3 < text.size(); ++at) stops.insert(text.substr(at, 3));
  int n_stopped = 0;
  for (const std::string& stop : stops) {
    GenerateOptions stopping = plain;
    stopping.stop = {stop};
    if (!generate(other, kGreedy, prompt_, stopping)) continue;  // part of a character
    SCOPED_TRACE(stop);
    compare(kGreedy, prompt_, stopping);
    ++n_stopped;
  }
  EXPECT_GT(n_stopped, 3);
}

TEST_F(Drafts, AreCutByTheCallback) {
  const GenerateOptions options = {.max_tokens = 40, .ignore_eos = true};
  for (std::size_t n = 0; n < 25; ++n) {
    SCOPED_TRACE(n);
    compare(kGreedy, prompt_, options, [n](Session&, std::size_t i) { return i != n; });
    compare(kGreedy, prompt_, options, [n](Session& session, std::size_t i) {
      if (i == n) session.cancel();
      return true;
    });
    compare(kGreedy, prompt_, options, [n](Session&, std::size_t i) {
      if (i == n) throw std::runtime_error("no more");
      return true;
    });
  }
}

TEST_F(Drafts, LetACallbackLookAtTheLogits) {
  int n_accepted = 0;
  for (std::size_t n = 0; n < 30; n += 3) {
    SCOPED_TRACE(n);
    n_accepted += compare(kGreedy, prompt_, {.max_tokens = 60, .ignore_eos = true},
                          [n](Session& session, std::size_t i) {
                            if (i >= n && i % 3 == 0) test::logits_of(session);
                            return true;
                          });
  }
  EXPECT_GT(n_accepted, 50);
}

// Of a local layer's pages as many are left behind the window as without drafts, and none is held ahead.
TEST_F(Drafts, LeaveTheSamePages) {
  const test::Bytes file =
      test::tiny_model(gguf::Type::q8_0, {.window = 100, .n_ctx = 6000}).build();
  model_ = Model::load(std::span(file), {.n_threads = 2}).value();
  const Tokens prompt = some_tokens(2400);
  int n_accepted = 0;
  for (const int n : {100, 101, 102, 103, 104, 105, 106, 107, 160, 170}) {
    SCOPED_TRACE(n);
    Session with = session(), without = session();
    const GenerateOptions options = {.max_tokens = n, .ignore_eos = true};
    const Outcome drafted = outcome(with, kGreedy, prompt, options, kMostDraft);
    expect_same(drafted, outcome(without, kGreedy, prompt, options, 0));
    n_accepted += drafted.answer->n_accepted;
    const KvCache& a = SessionAccess::impl(with)->cache;
    const KvCache& b = SessionAccess::impl(without)->cache;
    EXPECT_EQ(a.allocated_bytes(), b.allocated_bytes());
    for (int l = 0; l < model_.info().n_layers; ++l) {
      ASSERT_EQ(a.pages(l).size(), b.pages(l).size());
      for (std::size_t page = 0; page < a.pages(l).size(); ++page)
        EXPECT_EQ(a.pages(l)[page] == nullptr, b.pages(l)[page] == nullptr) << l << ' ' << page;
    }
    EXPECT_EQ(with.rewind(with.n_past() - kRewindable).value(), without.n_past() - kRewindable);
  }
  EXPECT_GT(n_accepted, 100);
}

// --- control --------------------------------------------------------------------------------------

// Knows a text by heart: after its token at a position it chooses the next one; after any other token a wrong
// one, or at every second position nothing that is finite. No step may notice. A hidden row holds the position
// and the token.
class Recital : public Backend {
 public:
  Recital(std::unique_ptr<Backend> cpu, const ModelInfo& info)
      : cpu_(std::move(cpu)),
        n_vocab_(static_cast<std::size_t>(info.n_vocab)),
        width_(static_cast<std::size_t>(info.d_model)) {}

  std::string name() const override { return "recital"; }
  int most_rows() const override { return 1000; }
  KvMemory& kv_memory() override { return cpu_->kv_memory(); }
  Status run_layers(std::span<const std::int32_t> tokens, std::span<const op::KvRow> rows,
                    std::span<const KvCache* const>, int) override {
    ++n_passes;
    if (rows.size() > most_rows_at_once) return Status(Code::out_of_memory, "too many rows");
    hidden_.assign(rows.size() * width_, 0);
    for (std::size_t t = 0; t < rows.size(); ++t) {
      hidden_[t * width_] = static_cast<float>(rows[t].pos);
      hidden_[t * width_ + 1] = static_cast<float>(tokens[t]);
    }
    return {};
  }
  const float* hidden_rows() const override { return hidden_.data(); }
  void keep_hidden(const float* row, float* to) override { std::copy_n(row, width_, to); }
  Status wait() override { return std::exchange(next_error, {}); }
  Status run_head(const float* hidden, int n_rows, float* logits) override {
    std::fill_n(logits, static_cast<std::size_t>(n_rows) * n_vocab_, 0.0f);
    for (std::size_t t = 0; t < static_cast<std::size_t>(n_rows); ++t) {
      const std::optional<Token> next = after(hidden + t * width_);
      float* const row = logits + t * n_vocab_;
      if (!next)
        row[0] = std::numeric_limits<float>::quiet_NaN();
      else
        row[*next] = 1000;
      if (repeats_itself) row[static_cast<Token>(hidden[t * width_ + 1])] = 1001;
    }
    return wait();
  }
  int most_candidates() const override { return chooses ? 64 : 0; }
  int choices_at_once() const override { return n_at_once; }
  Status choose(const float* hidden, int n_rows, int, int, std::span<const op::Draw> draws,
                std::span<op::Choice> choices) override {
    EXPECT_EQ(draws.size(), static_cast<std::size_t>(n_rows));
    EXPECT_LE(n_rows, n_at_once);
    for (std::size_t t = 0; t < choices.size(); ++t) {
      const std::optional<Token> next = after(hidden + t * width_);
      choices[t] = {next.value_or(0), next ? 0u : 1u};
    }
    return wait();
  }

  Tokens text;
  bool chooses = true;
  bool repeats_itself =
      false;  // the token fed is always more likely, unless a penalty prevents that
  int n_at_once = kMostChoices;
  std::size_t most_rows_at_once = 1000;
  std::size_t broken_after = std::size_t{1} << 40;  // the position behind which nothing is finite
  Status next_error;                                // of what is waited for next
  int n_passes = 0;

 private:
  std::optional<Token> after(const float* hidden) const {
    const auto position = static_cast<std::size_t>(hidden[0]);
    if (position >= broken_after) return {};
    if (text.at(position) == static_cast<Token>(hidden[1])) return text.at(position + 1);
    return position % 2 == 0 ? std::optional<Token>() : 7;
  }

  std::unique_ptr<Backend> cpu_;
  std::size_t n_vocab_, width_;
  std::vector<float> hidden_;
};

class Recitals : public Drafts {
 protected:
  Recitals() {
    Session other = session();
    auto& backend =
        const_cast<std::unique_ptr<Backend>&>(SessionAccess::impl(other)->shared.backend);
    auto recital = std::make_unique<Recital>(std::move(backend), model_.info());
    recital_ = recital.get();
    backend = std::move(recital);
  }

  // For every way in which choices are made.
  void on_every_path(const std::function<void()>& run) {
    for (const int n_at_once : {0, 1, 3, 4, 8}) {
      SCOPED_TRACE("choices at once: " + std::to_string(n_at_once));
      recital_->chooses = n_at_once > 0;
      recital_->n_at_once = n_at_once;
      run();
    }
  }

  // 60 tokens, and then the same again and again, with other ones where they are named.
  void recite(const std::vector<std::pair<std::size_t, Token>>& others = {}) {
    recital_->text.clear();
    while (recital_->text.size() < 400)
      for (Token token = 100; token < 160; ++token) recital_->text.push_back(token);
    for (const auto& [position, token] : others) recital_->text[position] = token;
  }
  // As compare() does, behind the first 60 tokens.
  int compare_recital(const GenerateOptions& options,
                      const SamplerOptions& sampler = kGreedy) const {
    Session with = session(), without = session();
    const int n_before = recital_->n_passes;
    const Outcome drafted = outcome(with, sampler, first(60), options, kMostDraft);
    const int n_passes = recital_->n_passes - n_before;
    const Outcome plain = outcome(without, sampler, first(60), options, 0);
    EXPECT_TRUE(plain.answer) << plain.answer.status().message();
    expect_same(drafted, plain);
    expect_same_choice(with, without, sampler);
    if (!drafted.answer) return 0;
    const int n_ids = static_cast<int>(drafted.answer->ids.size());
    if (drafted.answer->finish_reason == FinishReason::length) {
      EXPECT_EQ(n_passes + drafted.answer->n_accepted, n_ids);
    }
    return drafted.answer->n_accepted;
  }
  Tokens first(std::size_t n) const {
    return {recital_->text.begin(), recital_->text.begin() + static_cast<std::ptrdiff_t>(n)};
  }

  Recital* recital_;
};

TEST_F(Recitals, ACopyTakesFewSteps) {
  on_every_path([&] {
    recite();
    recital_->n_passes = 0;
    Session session = this->session();
    const auto answer = generate(session, kGreedy, first(60), {.max_tokens = 300});
    ASSERT_TRUE(answer) << answer.status().message();
    EXPECT_EQ(answer->ids, Tokens(recital_->text.begin() + 60, recital_->text.begin() + 360));
    // The prompt, four tokens until the copy is noticed, drafts of 1, 2 and 4, then eights.
    EXPECT_LE(recital_->n_passes, 1 + 4 + 3 + 300 / 8 + 1);
    EXPECT_EQ(answer->n_accepted, answer->n_drafted);
    EXPECT_EQ(recital_->n_passes + answer->n_accepted, 300);
  });
}

TEST_F(Recitals, WithoutRepeatsNothingIsDrafted) {
  recite();
  for (std::size_t i = 0; i < recital_->text.size(); ++i)
    recital_->text[i] = 10 + static_cast<Token>(i);
  Session session = this->session();
  const auto answer = generate(session, kGreedy, first(60), {.max_tokens = 300});
  ASSERT_TRUE(answer) << answer.status().message();
  EXPECT_EQ(answer->ids.size(), 300u);
  EXPECT_EQ(answer->n_drafted, 0);
}

TEST_F(Recitals, OtherTokensEndADraft) {
  on_every_path([&] {
    for (std::size_t position = 100; position < 120; ++position) {
      SCOPED_TRACE(position);
      recite({{position, 300}, {position + 40, 301}, {position + 41, 302}, {position + 45, 303}});
      EXPECT_GT(compare_recital({.max_tokens = 150}), 60);
    }
  });
}

// Each row's penalties count the tokens before it, those of the draft among them.
TEST_F(Recitals, PenaltiesSeeTheDraft) {
  recite();
  recital_->repeats_itself = true;
  for (const int window : {1, 2, 5})
    EXPECT_GT(compare_recital({.max_tokens = 100},
                              {.temperature = 0, .presence_penalty = 2, .penalty_window = window}),
              60);
}

// Which leaves the text, so that what follows is wrong, but the same wrong.
TEST_F(Recitals, ACallbackMayUseTheSession) {
  const std::vector<std::function<void(Session&)>> uses = {
      [](Session& session) { EXPECT_TRUE(session.logits()); },
      [](Session& session) { EXPECT_TRUE(session.rewind(session.n_past() - 2)); },
      [](Session& session) { EXPECT_TRUE(session.rewind(session.n_past())); },
      [](Session& session) { EXPECT_TRUE(session.decode(Tokens{30}).ok()); },
      [this](Session& session) {
        Session* const list[] = {&session};
        const Token next = recital_->text[static_cast<std::size_t>(session.n_past())];
        EXPECT_TRUE(decode_batch(list, {&next, 1}).ok());
      }};
  on_every_path([&] {
    recite();
    for (const auto& use : uses)
      for (std::size_t n = 0; n < 40; ++n) {
        SCOPED_TRACE("use " + std::to_string(&use - uses.data()) + " at " + std::to_string(n));
        Session with = session(), without = session();
        const auto react = [&](Session& session, std::size_t i) {
          if (i == n && session.n_past() > 0) use(session);
          return true;
        };
        const GenerateOptions options = {.max_tokens = 60, .ignore_eos = true};
        expect_same(outcome(with, kGreedy, first(60), options, kMostDraft, react),
                    outcome(without, kGreedy, first(60), options, 0, react));
      }
  });
}

TEST_F(Recitals, AStepTakesWhatFitsOfADraft) {
  on_every_path([&] {
    recite();
    const Tokens draft(recital_->text.begin() + 61, recital_->text.begin() + 81);
    for (const int n_ctx : {61, 62, 65, 68, 69, 100}) {
      Session session = this->session({.n_ctx = n_ctx});
      ASSERT_TRUE(session.decode(first(60)).ok());
      const auto chosen =
          SessionAccess::decode_and_sample(session, recital_->text[60], draft, kGreedy);
      ASSERT_TRUE(chosen) << chosen.status().message();
      EXPECT_EQ(*chosen,
                Tokens(draft.begin(), draft.begin() + std::min(n_ctx - 60, kMostDraft + 1)));
      EXPECT_EQ(session.n_past(), 61);
      EXPECT_FALSE(*SessionAccess::advance(session, 5)) << "not the next of the draft";
      EXPECT_EQ(*SessionAccess::advance(session, draft[0]), n_ctx > 61);
      EXPECT_EQ(session.n_past(), n_ctx > 61 ? 62 : 61);
    }
  });
}

TEST_F(Recitals, AnEndOfGenerationTokenWithinADraftEndsTheAnswer) {
  on_every_path([&] {
    for (std::size_t position = 100; position < 120; ++position) {
      SCOPED_TRACE(position);
      // The end is part of what is copied, too.
      recite({{position, 1}, {position - 60, 1}});
      EXPECT_GT(compare_recital({.max_tokens = 150}), 20);
      EXPECT_GT(compare_recital({.max_tokens = 150, .ignore_eos = true}), 60);
    }
  });
}

TEST_F(Recitals, WhatIsNotFiniteIsAnErrorWhereItIsReached) {
  on_every_path([&] {
    recite();
    for (std::size_t position = 59; position < 110; ++position) {
      SCOPED_TRACE(position);
      recital_->broken_after = position;
      Session with = session(), without = session();
      const Outcome plain = outcome(without, kGreedy, first(60), {}, 0);
      EXPECT_EQ(plain.answer.status().code(), Code::non_finite);
      EXPECT_EQ(plain.tokens.size(), position + 1);
      expect_same(outcome(with, kGreedy, first(60), {}, kMostDraft), plain);
    }
  });
}

TEST_F(Recitals, ADraftWithoutMemoryIsDoneWithout) {
  on_every_path([&] {
    recite();
    Session with = session(), without = session();
    // The prompt is evaluated before memory becomes short.
    ASSERT_TRUE(with.decode(first(60)).ok());
    ASSERT_TRUE(without.decode(first(60)).ok());
    recital_->most_rows_at_once = 1;
    const Outcome drafted = outcome(with, kGreedy, first(60), {.max_tokens = 100}, kMostDraft);
    expect_same(drafted, outcome(without, kGreedy, first(60), {.max_tokens = 100}, 0));
    ASSERT_TRUE(drafted.answer) << drafted.answer.status().message();
    EXPECT_GT(drafted.answer->n_drafted, 0);
    EXPECT_EQ(drafted.answer->n_accepted, 0);
    recital_->most_rows_at_once = 1000;
  });
}

TEST_F(Recitals, AFailedDeviceEndsTheAnswer) {
  on_every_path([&] {
    recite();
    Session session = this->session();
    const auto failing = [&](Session&, std::size_t i) {
      if (i == 30) recital_->next_error = Status(Code::device, "attention: it failed");
      return true;
    };
    const Outcome made = outcome(session, kGreedy, first(60), {}, kMostDraft, failing);
    EXPECT_EQ(made.answer.status().code(), Code::device);
    EXPECT_EQ(made.heard.back().n_past + 1, session.n_past() + 1) << "no token of the failed step";
    EXPECT_EQ(session.logits().status().code(), Code::device);
  });
}

TEST_F(Recitals, OptionsOutOfRangeAreErrors) {
  recite();
  Session session = this->session();
  for (const int n_draft : {-1, kMostDraft + 1})
    EXPECT_EQ(generate(session, kGreedy, first(60), {.n_draft = n_draft}).status().code(),
              Code::invalid_argument);
  EXPECT_EQ(session.n_past(), 0);
}

}  // namespace
}  // namespace engine
