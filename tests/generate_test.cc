// The generate() loop on a tiny model: what it reuses, when it ends, what it tells its callbacks.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "engine/engine.h"
#include "gguf/utf8.h"
#include "tests/support/model_file.h"

namespace engine {
namespace {

using Tokens = std::vector<Token>;

const SamplerOptions kGreedy = {.temperature = 0};
// Flat enough that end-of-generation tokens come up.
const SamplerOptions kWild = {.temperature = 3, .top_k = 0, .top_p = 1, .seed = 3};
const Tokens kPrompt = {2, 300, 301, 302, 303, 304, 305, 306};

class Generate : public testing::Test {
 protected:
  Generate()
      : model_(Model::load(test::golden_file("tiny/tiny-nano-F32.gguf")).value()),
        session_(new_session()) {}

  Session new_session(int n_ctx = 200) const {
    return Session::create(model_, {.n_ctx = n_ctx}).value();
  }

  Generated run(const Tokens& prompt, const SamplerOptions& sampler, const GenerateOptions& options,
                const OnToken& on_token = {}) {
    Result<Generated> made = generate(session_, sampler, prompt, options, on_token);
    EXPECT_TRUE(made) << made.status().message();
    return made ? *std::move(made) : Generated{};
  }

  Tokens held() const { return {session_.tokens().begin(), session_.tokens().end()}; }

  Model model_;
  Session session_;
};

Tokens joined(Tokens head, const Tokens& tail) {
  head.insert(head.end(), tail.begin(), tail.end());
  return head;
}

TEST_F(Generate, GreedyIsTheArgmaxOfEveryStep) {
  Session by_hand = new_session();
  Tokens expected;
  ASSERT_TRUE(by_hand.decode(kPrompt).ok());
  for (int i = 0; i < 20; ++i) {
    const std::span<const float> logits = by_hand.logits().value();
    const auto best =
        static_cast<Token>(std::max_element(logits.begin(), logits.end()) - logits.begin());
    expected.push_back(best);
    ASSERT_TRUE(by_hand.decode({&best, 1}).ok());
  }
  EXPECT_EQ(run(kPrompt, kGreedy, {.max_tokens = 20, .ignore_eos = true}).ids, expected);
}

TEST_F(Generate, EndsAtTheTokenLimit) {
  for (const int max_tokens : {0, 1, 5}) {
    const Generated made = run(kPrompt, kGreedy, {.max_tokens = max_tokens, .ignore_eos = true});
    EXPECT_EQ(made.ids.size(), static_cast<std::size_t>(max_tokens));
    EXPECT_EQ(made.finish_reason, FinishReason::length);
    EXPECT_EQ(made.n_prompt, 8);
  }
}

TEST_F(Generate, EndsWhereTheContextDoes) {
  session_ = new_session(20);
  for (const int max_tokens : {-1, 1000}) {
    const Generated made = run(kPrompt, kGreedy, {.max_tokens = max_tokens, .ignore_eos = true});
    EXPECT_EQ(made.ids.size(), 12u);
    EXPECT_EQ(made.finish_reason, FinishReason::length);
  }
  session_ = new_session(8);
  EXPECT_TRUE(run(kPrompt, kGreedy, {}).ids.empty());
}

TEST_F(Generate, APromptThatDoesNotFitChangesNothing) {
  session_ = new_session(9);
  run(kPrompt, kGreedy, {.max_tokens = 0});
  const Result<Generated> made = generate(session_, kGreedy, joined(kPrompt, {300, 300}));
  ASSERT_FALSE(made);
  EXPECT_EQ(made.status().code(), Code::context_full);
  EXPECT_NE(made.status().message().find("10"), std::string::npos) << made.status().message();
  EXPECT_NE(made.status().message().find("9"), std::string::npos) << made.status().message();
  EXPECT_EQ(held(), kPrompt);
}

TEST_F(Generate, SessionHoldsPromptAndAnswer) {
  const Generated made = run(kPrompt, kGreedy, {.max_tokens = 6, .ignore_eos = true});
  const Tokens all = joined(kPrompt, made.ids);
  EXPECT_EQ(held(), Tokens(all.begin(), all.end() - 1));
}

TEST_F(Generate, ReusesTheCommonPrefix) {
  const GenerateOptions options = {.max_tokens = 6, .ignore_eos = true};
  const Generated first = run(kPrompt, kGreedy, options);
  EXPECT_EQ(first.n_cached, 0);
  // Again: all but the last prompt token, which leaves the logits behind.
  const Generated second = run(kPrompt, kGreedy, options);
  EXPECT_EQ(second.n_cached, 7);
  EXPECT_EQ(second.ids, first.ids);
  // A turn more: everything held.
  const Tokens longer = joined(joined(kPrompt, first.ids), {310, 311});
  EXPECT_EQ(run(longer, kGreedy, options).n_cached, 13);
  // An edit.
  Tokens edited = kPrompt;
  edited[5] = 400;
  const Generated after_edit = run(edited, kGreedy, options);
  EXPECT_EQ(after_edit.n_cached, 5);
  session_ = new_session();
  EXPECT_EQ(run(edited, kGreedy, options).ids, after_edit.ids);
}

TEST_F(Generate, SameSeedSameAnswerColdAndCached) {
  const GenerateOptions options = {.max_tokens = 40, .ignore_eos = true};
  const Tokens cold = run(kPrompt, kWild, options).ids;
  EXPECT_EQ(run(kPrompt, kWild, options).ids, cold);
  SamplerOptions other = kWild;
  other.seed = 4;
  EXPECT_NE(run(kPrompt, other, options).ids, cold);
}

TEST_F(Generate, EndOfGenerationTokensEndTheAnswerUnlessIgnored) {
  const Generated ignored = run(kPrompt, kWild, {.ignore_eos = true});
  const auto end = std::find_if(ignored.ids.begin(), ignored.ids.end(),
                                [&](Token id) { return model_.is_end_of_generation(id); });
  ASSERT_NE(end, ignored.ids.end()) << "choose another seed";
  EXPECT_EQ(ignored.finish_reason, FinishReason::length);

  const Generated made = run(kPrompt, kWild, {});
  EXPECT_EQ(made.ids, Tokens(ignored.ids.begin(), end));
  EXPECT_EQ(made.finish_reason, FinishReason::stop);
  EXPECT_EQ(made.stop_string, "");
}

// Collects what a callback is told.
struct Listener {
  Tokens ids;
  std::vector<std::string> texts;
  std::size_t n_wanted = 1000;

  OnToken on_token() {
    return [this](Token id, std::string_view text) {
      ids.push_back(id);
      texts.emplace_back(text);
      return ids.size() < n_wanted;
    };
  }
  std::string text() const {
    std::string all;
    for (const std::string& text : texts) all += text;
    return all;
  }
};

TEST_F(Generate, TheCallbackHearsEveryTokenAndAllTheText) {
  Listener listener;
  const Generated made =
      run(kPrompt, kWild, {.max_tokens = 150, .ignore_eos = true}, listener.on_token());
  Tokens heard = listener.ids;
  if (heard.back() == -1) heard.pop_back();
  EXPECT_EQ(heard, made.ids);
  EXPECT_EQ(listener.text(), made.text);
  EXPECT_GT(made.text.size(), 50u);
  for (const std::string& text : listener.texts) EXPECT_TRUE(gguf::is_utf8(text)) << text;
}

TEST_F(Generate, CutsBeforeAStopString) {
  const GenerateOptions plain = {.max_tokens = 60, .ignore_eos = true};
  const std::string text = run(kPrompt, kWild, plain).text;
  // Some whole characters out of the middle.
  std::string stop;
  for (std::size_t at = text.size() / 2; stop.size() < 8 && at < text.size(); ++at)
    if (stop.size() > 0 || gguf::first_code_point(text.substr(at)).size > 0) stop += text[at];
  while (!gguf::is_utf8(stop)) stop.pop_back();
  ASSERT_GE(stop.size(), 4u);

  GenerateOptions stopping = plain;
  stopping.stop = {"certainly not in there", stop};
  Listener listener;
  const Generated made = run(kPrompt, kWild, stopping, listener.on_token());
  EXPECT_EQ(made.text, text.substr(0, text.find(stop)));
  EXPECT_EQ(made.stop_string, stop);
  EXPECT_EQ(made.finish_reason, FinishReason::stop);
  EXPECT_EQ(listener.text(), made.text);
  EXPECT_LT(made.ids.size(), 60u);
}

TEST_F(Generate, WhatWasHeldForAStopStringComesAtTheEnd) {
  const GenerateOptions plain = {.max_tokens = 30, .ignore_eos = true};
  const std::string text = run(kPrompt, kWild, plain).text;
  std::size_t last = text.size() - 1;
  while (gguf::first_code_point(text.substr(last)).size == 0) --last;

  GenerateOptions stopping = plain;
  stopping.stop = {text.substr(last) + "and more"};
  Listener listener;
  const Generated made = run(kPrompt, kWild, stopping, listener.on_token());
  EXPECT_EQ(made.text, text);
  EXPECT_EQ(made.finish_reason, FinishReason::length);
  EXPECT_EQ(listener.ids.back(), -1);
  EXPECT_EQ(listener.text(), text);
}

TEST_F(Generate, TheCallbackCanStop) {
  Listener listener;
  listener.n_wanted = 3;
  const Generated made = run(kPrompt, kGreedy, {.ignore_eos = true}, listener.on_token());
  EXPECT_EQ(made.finish_reason, FinishReason::cancelled);
  EXPECT_EQ(made.ids.size(), 3u);
  EXPECT_EQ(listener.ids, made.ids);  // and no call after its refusal
}

TEST_F(Generate, ACallbackThatThrowsEndsTheCallOnly) {
  const auto throwing = [](Token, std::string_view) -> bool {
    throw std::runtime_error("no more");
  };
  const Result<Generated> made = generate(session_, kGreedy, kPrompt, {}, throwing);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.status().code(), Code::cancelled);
  EXPECT_NE(made.status().message().find("no more"), std::string::npos);
  const auto throwing_int = [](Token, std::string_view) -> bool { throw 1; };
  EXPECT_EQ(generate(session_, kGreedy, kPrompt, {}, throwing_int).status().code(),
            Code::cancelled);

  const GenerateOptions options = {.max_tokens = 5, .ignore_eos = true};
  const Tokens after = run(kPrompt, kGreedy, options).ids;
  session_ = new_session();
  EXPECT_EQ(after, run(kPrompt, kGreedy, options).ids);
}

TEST_F(Generate, ProgressIsReportedAndCanStop) {
  session_ = Session::create(model_, {}).value();
  Tokens prompt(1200, 300);
  prompt[0] = 2;
  std::vector<double> shares;
  GenerateOptions options = {.max_tokens = 3, .ignore_eos = true};
  const Tokens expected = run(prompt, kGreedy, options).ids;
  ASSERT_TRUE(session_.rewind(0));

  options.progress = [&](double share) {
    shares.push_back(share);
    return true;
  };
  EXPECT_EQ(run(prompt, kGreedy, options).ids, expected);
  ASSERT_GE(shares.size(), 2u);
  EXPECT_TRUE(std::is_sorted(shares.begin(), shares.end()));
  EXPECT_EQ(shares.back(), 1.0);

  ASSERT_TRUE(session_.rewind(0));
  options.progress = [](double) { return false; };
  const Generated made = run(prompt, kGreedy, options);
  EXPECT_EQ(made.finish_reason, FinishReason::cancelled);
  EXPECT_TRUE(made.ids.empty());
  EXPECT_LT(session_.n_past(), 1200);
}

TEST_F(Generate, TimesAddUp) {
  const Generated made = run(kPrompt, kGreedy, {.max_tokens = 5, .ignore_eos = true});
  EXPECT_GT(made.prompt_seconds, 0);
  EXPECT_GE(made.first_token_seconds, made.prompt_seconds);
  EXPECT_GE(made.total_seconds, made.first_token_seconds);
}

TEST_F(Generate, BadArgumentsAreErrors) {
  const auto code = [&](const Tokens& prompt, const SamplerOptions& sampler,
                        const GenerateOptions& options) {
    return generate(session_, sampler, prompt, options).status().code();
  };
  EXPECT_EQ(code({}, kGreedy, {}), Code::invalid_argument);
  EXPECT_EQ(code({2, -1}, kGreedy, {}), Code::invalid_argument);
  EXPECT_EQ(code({2, 512}, kGreedy, {}), Code::invalid_argument);
  EXPECT_EQ(code(kPrompt, {.top_p = 2}, {}), Code::invalid_argument);
  EXPECT_EQ(code(kPrompt, kGreedy, {.max_tokens = -2}), Code::invalid_argument);
  EXPECT_EQ(code(kPrompt, kGreedy, {.stop = {"a", ""}}), Code::invalid_argument);
  EXPECT_EQ(code(kPrompt, kGreedy, {.stop = {"\xF0\x9F"}}), Code::invalid_argument);
}

TEST(FinishReason, Names) {
  EXPECT_EQ(name(FinishReason::stop), "stop");
  EXPECT_EQ(name(FinishReason::length), "length");
  EXPECT_EQ(name(FinishReason::cancelled), "cancelled");
}

TEST_F(Generate, LogProbabilitiesAreThoseOfScore) {
  for (const SamplerOptions& sampler : {kGreedy, kWild}) {
    const GenerateOptions options = {.max_tokens = 12, .ignore_eos = true};
    const Tokens plain = run(kPrompt, sampler, options).ids;
    GenerateOptions asking = options;
    asking.log_probs = true;
    const Generated made = run(kPrompt, sampler, asking);
    EXPECT_EQ(made.ids, plain);
    Session other = new_session();
    ASSERT_TRUE(other.decode(kPrompt).ok());
    EXPECT_EQ(made.log_probs, other.score(made.ids).value());
  }
}

// What is edited is chosen, or not, and the edits see every token before.
TEST_F(Generate, EditedLogits) {
  const GenerateOptions options = {.max_tokens = 30, .ignore_eos = true};
  const Tokens plain = run(kPrompt, kGreedy, options).ids;
  std::vector<Tokens> seen;
  SamplerOptions sampler = kGreedy;
  sampler.edit_logits = [&](std::span<const Token> tokens, std::span<float> logits) {
    seen.emplace_back(tokens.begin(), tokens.end());
    logits[static_cast<std::size_t>(plain[0])] = -std::numeric_limits<float>::infinity();
    if (tokens.size() % 3 == 0) logits[77] += 1000;
  };
  const Generated made = run(kPrompt, sampler, options);
  EXPECT_EQ(std::count(made.ids.begin(), made.ids.end(), plain[0]), 0);
  for (std::size_t i = 0; i < made.ids.size(); ++i) {
    EXPECT_EQ(seen[i], joined(kPrompt, Tokens(made.ids.begin(),
                                              made.ids.begin() + static_cast<std::ptrdiff_t>(i))));
    EXPECT_TRUE((kPrompt.size() + i) % 3 != 0 || made.ids[i] == 77);
  }
  sampler.edit_logits = [](auto, std::span<float> logits) {
    std::fill(logits.begin(), logits.end(), -std::numeric_limits<float>::infinity());
  };
  EXPECT_EQ(generate(session_, sampler, kPrompt, options).status().code(), Code::non_finite);
  sampler.edit_logits = [](auto, auto) { throw std::runtime_error("no"); };
  EXPECT_EQ(generate(session_, sampler, kPrompt, options).status().code(), Code::internal);
  EXPECT_EQ(run(kPrompt, kGreedy, options).ids, plain);  // the session is as good as before
}

}  // namespace
}  // namespace engine
