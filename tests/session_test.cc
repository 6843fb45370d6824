// Session: appending, limits, rewinding, cancelling, sharing a model between threads.
#include <gtest/gtest.h>

#include <atomic>
#include <cfenv>
#include <chrono>
#include <cmath>
#include <thread>

#include "engine/engine.h"
#include "tests/support/sessions.h"
#include "tests/support/tiny_model.h"

namespace engine {
namespace {

using test::logits_of;
using test::session_of;
using test::some_tokens;

const Model& model() {
  static const Model loaded = [] {
    const test::Bytes file =
        test::tiny_model(gguf::Type::q8_0, {.window = 100, .n_ctx = 6000}).build();
    return Model::load(std::span(file), {.n_threads = 2}).value();
  }();
  return loaded;
}

std::vector<float> cold_logits(std::span<const Token> tokens) {
  Session session = session_of(model(), tokens);
  return logits_of(session);
}

TEST(Session, RefusesWhatDoesNotFitAndKeepsWhatItHas) {
  Session session = Session::create(model(), {.n_ctx = 10}).value();
  EXPECT_EQ(session.logits().status().code(), Code::invalid_argument);
  ASSERT_TRUE(session.decode(some_tokens(8)).ok());
  const std::vector<float> before = logits_of(session);
  EXPECT_EQ(session.decode(some_tokens(3)).code(), Code::context_full);
  for (const Token bad : {-1, test::kTinyVocab, 1 << 30})
    EXPECT_EQ(session.decode({&bad, 1}).code(), Code::invalid_argument);
  EXPECT_EQ(session.n_past(), 8);
  EXPECT_EQ(logits_of(session), before);
  EXPECT_TRUE(session.decode(some_tokens(2)).ok());
}

TEST(Session, RefusesOptionsOutOfRange) {
  for (const int n_ctx : {-1, 6001})
    EXPECT_EQ(Session::create(model(), {.n_ctx = n_ctx}).status().code(), Code::invalid_argument);
  EXPECT_EQ(Session::create(model(), {.n_chunk = -1}).status().code(), Code::invalid_argument);
}

TEST(Session, RewindsAnywhereNearAndThenGivesAColdRunsBits) {
  const std::vector<Token> tokens = some_tokens(300);
  for (const int n : {299, 257, 256, 128, 64, 63, 1}) {
    Session session = Session::create(model()).value();
    ASSERT_TRUE(session.decode(tokens).ok());
    ASSERT_EQ(session.rewind(n).value(), n);
    const auto kept = std::span(tokens).first(static_cast<std::size_t>(n));
    EXPECT_EQ(logits_of(session), cold_logits(kept)) << "right after rewinding to " << n;
    ASSERT_TRUE(session.decode(std::span(tokens).subspan(7, 50)).ok());
    std::vector<Token> other(kept.begin(), kept.end());
    other.insert(other.end(), tokens.begin() + 7, tokens.begin() + 57);
    EXPECT_EQ(logits_of(session), cold_logits(other)) << "after going on from " << n;
  }
}

TEST(Session, RewindsFarOnlyAsFarAsTheLocalLayersAllow) {
  const std::vector<Token> tokens = some_tokens(5000);
  Session session = Session::create(model()).value();
  ASSERT_TRUE(session.decode(tokens).ok());
  EXPECT_EQ(session.rewind(5000).value(), 5000);
  EXPECT_EQ(session.rewind(5000 - 2048).value(), 5000 - 2048);
  // What that position needed is gone from the local layers, so nothing but the start is left below
  // it.
  EXPECT_EQ(session.rewind(1500).value(), 0);
  EXPECT_EQ(session.rewind(-1).status().code(), Code::invalid_argument);
}

TEST(Session, ScoresWhatTheLogitsSay) {
  const std::vector<Token> tokens = some_tokens(40);
  Session session = Session::create(model(), {.n_chunk = 16}).value();
  const auto first = session.score(std::span(tokens).first(25));
  const auto rest = session.score(std::span(tokens).subspan(25));
  ASSERT_TRUE(first && rest);
  ASSERT_EQ(first->size(), 24u);
  ASSERT_EQ(rest->size(), 15u);
  std::vector<float> scores = *first;
  scores.insert(scores.end(), rest->begin(), rest->end());
  for (std::size_t i = 0; i < scores.size(); ++i) {
    const std::vector<float> logits = cold_logits(std::span(tokens).first(i + 1));
    double z = 0;
    for (const float logit : logits) z += std::exp(static_cast<double>(logit));
    EXPECT_NEAR(scores[i], logits[static_cast<std::size_t>(tokens[i + 1])] - std::log(z), 1e-5)
        << "token " << i + 1;
  }
}

TEST(Session, StopsAtTheNextChunkWhenCancelled) {
  Session session = Session::create(model(), {.n_chunk = 1}).value();
  const std::vector<Token> tokens = some_tokens(6000);
  std::atomic<bool> done = false;
  std::thread canceller([&] {
    while (!done) {
      session.cancel();
      std::this_thread::yield();
    }
  });
  const Status status = session.decode(tokens);
  done = true;
  canceller.join();
  EXPECT_EQ(status.code(), Code::cancelled);
  EXPECT_LT(session.n_past(), 6000);
  EXPECT_TRUE(session.decode(std::span(tokens).first(1)).ok())
      << "a finished cancel() has no effect on the next call";
}

TEST(Session, CancelFromAnotherThreadEndsGenerate) {
  Session session = Session::create(model()).value();
  std::thread canceller;
  const OnToken start_canceller = [&](Token, std::string_view) {
    if (!canceller.joinable()) canceller = std::thread([&] { session.cancel(); });
    return true;
  };
  const auto answer = generate(session, {.temperature = 0}, some_tokens(5),
                               {.max_tokens = 5000, .ignore_eos = true}, start_canceller);
  canceller.join();
  ASSERT_TRUE(answer) << answer.status().message();
  EXPECT_EQ(answer->finish_reason, FinishReason::cancelled);
  EXPECT_LT(answer->ids.size(), 5000u);
}

TEST(Session, RewindsToWhatItSharesWithAPrompt) {
  const std::vector<Token> tokens = some_tokens(100);
  Session session = Session::create(model()).value();
  ASSERT_TRUE(session.decode(tokens).ok());
  std::vector<Token> edited(tokens.begin(), tokens.begin() + 90);
  edited[70] = edited[71] + 1;
  EXPECT_EQ(session.rewind_to_prefix(edited).value(), 70);
  EXPECT_EQ(session.rewind_to_prefix(tokens).value(), 70);
  EXPECT_EQ(session.rewind_to_prefix({}).value(), 0);
}

TEST(Session, TheCallersFloatingPointEnvironmentDoesNotMatter) {
  const std::vector<Token> tokens = some_tokens(30);
  const std::vector<float> expected = cold_logits(tokens);
  std::fenv_t before;
  ASSERT_EQ(std::fegetenv(&before), 0);
  ASSERT_EQ(std::fesetround(FE_UPWARD), 0);
  const test::Bytes file =
      test::tiny_model(gguf::Type::q8_0, {.window = 100, .n_ctx = 6000}).build();
  const auto other = Model::load(std::span(file), {.n_threads = 2});
  Session session = Session::create(other.value()).value();
  EXPECT_TRUE(session.decode(tokens).ok());
  const std::vector<float> logits = logits_of(session);
  EXPECT_EQ(std::fegetround(), FE_UPWARD) << "the library leaves it alone, too";
  std::fesetenv(&before);
  EXPECT_EQ(logits, expected);
}

TEST(Session, SecondThreadGetsBusy) {
  Session session = Session::create(model(), {.n_chunk = 1}).value();
  const std::vector<Token> tokens = some_tokens(3000);
  std::atomic<bool> busy = false, done = false;
  std::thread other([&] {
    while (!done && !busy) busy = session.sample({}).status().code() == Code::busy;
    session.cancel();
  });
  // This call may find the session in use by the other's: it tries until the other has.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!busy && std::chrono::steady_clock::now() < deadline) {
    static_cast<void>(session.decode(tokens));
    static_cast<void>(session.rewind(0));
  }
  done = true;
  other.join();
  EXPECT_TRUE(busy);
}

TEST(Session, SessionsOnManyThreadsAnswerAsIfAlone) {
  constexpr int kSessions = 8;
  const std::vector<Token> tokens = some_tokens(100);
  std::vector<std::vector<float>> expected, got(kSessions);
  for (int i = 0; i < kSessions; ++i)
    expected.push_back(cold_logits(std::span(tokens).first(static_cast<std::size_t>(20 + 10 * i))));
  std::vector<std::thread> threads;
  for (int i = 0; i < kSessions; ++i)
    threads.emplace_back([&, i] {
      Session session = Session::create(model(), {.n_chunk = 7}).value();
      ASSERT_TRUE(
          session.decode(std::span(tokens).first(static_cast<std::size_t>(20 + 10 * i))).ok());
      got[static_cast<std::size_t>(i)] = logits_of(session);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(got, expected);
}

}  // namespace
}  // namespace engine
