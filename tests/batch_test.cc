// decode_batch: the bits of each session alone, and errors that change nothing.
#include "tests/support/batch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <limits>
#include <thread>

#include "tests/support/model_file.h"
#include "tests/support/same_bits.h"
#include "tests/support/sessions.h"
#include "tests/support/tiny_model.h"

namespace engine {
namespace {

using test::expect_batch_as_alone;
using test::logits_of;
using test::session_of;
using test::some_tokens;

// Lengths at and around the borders of pages and of the tiny models' windows.
constexpr int kLengths[] = {63, 1, 64, 127, 5, 62, 128, 16, 65, 30, 8, 7, 129, 2, 100, 9, 33};

std::vector<std::vector<Token>> prompts(int n) {
  std::vector<std::vector<Token>> all;
  for (int i = 0; i < n; ++i) all.push_back(some_tokens(kLengths[i], 7919 + 10 * i));
  return all;
}

class Batch : public testing::TestWithParam<const char*> {
 protected:
  static Model load(cpu::Isa isa = cpu::best_isa(), int n_threads = 2) {
    return test::load_at(test::golden_file(std::string("tiny/") + GetParam()), isa, n_threads);
  }
};

TEST_P(Batch, AnySizeGivesTheBitsOfEachSessionAlone) {
  const Model model = load();
  for (const int n : {1, 2, 3, 4, 5, 8, 9, 16, 17}) {
    SCOPED_TRACE(std::to_string(n) + " sessions");
    expect_batch_as_alone(model, model, prompts(n), 2, {});
  }
  expect_batch_as_alone(model, model, prompts(5), 2, {.kv = KvType::f32});
}

TEST_P(Batch, OverThreadsAndInstructionSets) {
  const Model alone = load(cpu::Isa::scalar, 1);
  const auto check = [&](cpu::Isa isa, int n_threads) {
    SCOPED_TRACE(std::string(cpu::name(isa)) + ", " + std::to_string(n_threads) + " threads");
    expect_batch_as_alone(load(isa, n_threads), alone, prompts(5), 2, {});
  };
  for (const cpu::Isa isa : cpu::supported_isas()) check(isa, 2);
  for (const int n_threads : {1, 3, 5}) check(cpu::best_isa(), n_threads);
}

INSTANTIATE_TEST_SUITE_P(Files, Batch,
                         testing::Values("tiny-nano-F32.gguf", "tiny-mqa-Q4_K_M.gguf",
                                         "tiny-gqa-Q8_0.gguf", "tiny-mixed-Q4_K_M.gguf"),
                         [](const auto& tiny) {
                           std::string name = tiny.param;
                           name.resize(name.find('.'));
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

const Model& model() {
  static const Model loaded = [] {
    const test::Bytes file = test::tiny_model(gguf::Type::q8_0, {.n_ctx = 6000}).build();
    return Model::load(std::span(file), {.n_threads = 2}).value();
  }();
  return loaded;
}

TEST(BatchStep, FollowsARewindWithoutPreparation) {
  const std::vector<Token> tokens = some_tokens(100);
  Session a = session_of(model(), tokens), b = session_of(model(), tokens);
  ASSERT_EQ(a.rewind(70).value(), 70);
  Session* const sessions[] = {&a, &b};
  ASSERT_TRUE(decode_batch(sessions, std::vector{tokens[70], tokens[3]}).ok());
  Session alone = session_of(model(), std::span(tokens).first(71));
  EXPECT_EQ(logits_of(a), logits_of(alone));
}

TEST(BatchStep, TakesSamplesAndGoesOnAlone) {
  const std::vector<Token> tokens = some_tokens(40);
  Session a = session_of(model(), tokens), b = session_of(model(), std::span(tokens).first(20)),
          c = session_of(model(), tokens);
  Session* const sessions[] = {&a, &b};
  ASSERT_TRUE(decode_batch(sessions, std::vector{tokens[5], tokens[6]}).ok());
  ASSERT_TRUE(c.decode(std::span(tokens).subspan(5, 1)).ok());
  const SamplerOptions sampler = {.seed = 7};
  const Token next = a.sample(sampler).value();
  EXPECT_EQ(next, c.sample(sampler).value());
  ASSERT_TRUE(a.decode({&next, 1}).ok() && c.decode({&next, 1}).ok());
  EXPECT_EQ(logits_of(a), logits_of(c));
}

TEST(BatchStep, EmptyListsAreNoWork) { EXPECT_TRUE(decode_batch({}, {}).ok()); }

// Two sessions that every refused call must leave alone.
class Refusal : public testing::Test {
 protected:
  void expect(Code code, std::span<Session* const> sessions, std::span<const Token> tokens,
              const std::string& words) {
    const Status status = decode_batch(sessions, tokens);
    EXPECT_EQ(status.code(), code) << status.message();
    EXPECT_NE(status.message().find(words), std::string::npos) << status.message();
    EXPECT_EQ(a_.n_past(), 30);
    EXPECT_EQ(b_.n_past(), 10);
    EXPECT_EQ(logits_of(a_), a_logits_);
    EXPECT_EQ(logits_of(b_), b_logits_);
  }

  std::vector<Token> tokens_ = some_tokens(30);
  Session a_ = session_of(model(), tokens_),
          b_ = session_of(model(), std::span(tokens_).first(10), {.n_ctx = 10});
  std::vector<float> a_logits_ = logits_of(a_), b_logits_ = logits_of(b_);
};

TEST_F(Refusal, Lists) {
  expect(Code::invalid_argument, std::vector{&a_}, std::vector{5, 6}, "1 sessions, but 2 tokens");
  expect(Code::invalid_argument, std::vector<Session*>{&a_, nullptr}, std::vector{5, 6},
         "session 1: null");
  expect(Code::invalid_argument, std::vector{&a_, &b_, &a_}, std::vector{5, 6, 7},
         "session 0: is listed twice");
  Session moved = session_of(model(), tokens_), to = std::move(moved);
  expect(Code::invalid_argument, std::vector{&a_, &moved}, std::vector{5, 6}, "session 1");
}

TEST_F(Refusal, TokensAndContexts) {
  Session c = session_of(model(), tokens_);
  for (const Token bad : {-1, test::kTinyVocab, 1 << 30})
    expect(Code::invalid_argument, std::vector{&c, &a_}, std::vector{5, bad}, "session 1: token 0");
  expect(Code::context_full, std::vector{&a_, &b_}, std::vector{5, 6}, "session 1: the context");
  EXPECT_EQ(c.n_past(), 30);
}

TEST_F(Refusal, SessionsThatDoNotGoTogether) {
  const test::Bytes file = test::tiny_model().build();
  const Model other = Model::load(std::span(file), {.n_threads = 1}).value();
  Session stranger = session_of(other, tokens_),
          wide = session_of(model(), tokens_, {.kv = KvType::f32});
  expect(Code::invalid_argument, std::vector{&a_, &stranger}, std::vector{5, 6},
         "session 1: is of another model");
  expect(Code::invalid_argument, std::vector{&a_, &wide}, std::vector{5, 6},
         "session 1: has another KvType");
}

// With a head of its own, the model's embeddings may make one session's logits infinite alone.
TEST(BatchStep, NonFiniteLogitsOfOneSessionChangeNone) {
  test::GgufFile file = test::tiny_model(gguf::Type::f32, {.n_ctx = 1000});
  test::FileTensor head = file.tensor("token_embd.weight");
  head.name = "output.weight";
  file.tensors.push_back(std::move(head));
  constexpr Token kBad = 300;
  const float infinity = std::numeric_limits<float>::infinity();
  test::Bytes& embedding = file.tensor("token_embd.weight").data;
  std::memcpy(embedding.data() + kBad * test::kTinyShape.d_model * sizeof infinity, &infinity,
              sizeof infinity);
  const test::Bytes bytes = file.build();
  const Model damaged = Model::load(std::span(bytes), {.n_threads = 2}).value();

  const std::vector<Token> tokens = some_tokens(20);
  for (const std::size_t n : {2u, 20u})  // within one piece of the head, and over two
    for (const std::size_t bad : {std::size_t{0}, n - 1}) {
      std::vector<Session> sessions;
      for (std::size_t i = 0; i < n; ++i) sessions.push_back(session_of(damaged, tokens));
      const std::vector<float> before = logits_of(sessions[0]);
      std::vector<Session*> list;
      for (Session& session : sessions) list.push_back(&session);
      std::vector<Token> next(n, 7);
      next[bad] = kBad;
      const Status status = decode_batch(list, next);
      EXPECT_EQ(status.code(), Code::non_finite);
      const std::string index = "session " + std::to_string(bad) + ": ";
      EXPECT_EQ(status.message().find(index), 0u) << status.message();
      for (Session& session : sessions) {
        EXPECT_EQ(session.n_past(), 20);
        EXPECT_EQ(logits_of(session), before);
      }
      next[bad] = 7;
      EXPECT_TRUE(decode_batch(list, next).ok());
    }
}

TEST(BatchStep, ASessionInUseElsewhereIsBusy) {
  const std::vector<Token> tokens = some_tokens(3000);
  Session a = session_of(model(), std::span(tokens).first(10));
  Session b = Session::create(model(), {.n_chunk = 1}).value();
  Session* const sessions[] = {&a, &b};
  std::atomic<bool> busy = false, done = false;
  std::thread other([&] {
    while (!busy && !done) {
      const Status status = decode_batch(sessions, std::vector{5, 6});
      busy = status.code() == Code::busy && status.message().starts_with("session 1: ");
    }
    b.cancel();
  });
  // Either call may find the session in use by the other; this one tries until the other has.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!busy && std::chrono::steady_clock::now() < deadline) {
    static_cast<void>(b.decode(tokens));
    static_cast<void>(b.rewind(0));
  }
  done = true;
  other.join();
  EXPECT_TRUE(busy);
}

TEST(BatchStep, OverlappingListsNeverWaitForEachOther) {
  const std::vector<Token> tokens = some_tokens(10);
  Session a = session_of(model(), tokens), b = session_of(model(), tokens),
          c = session_of(model(), tokens);
  const auto steps = [](std::vector<Session*> sessions, int& n_done) {
    const std::vector<Token> next(sessions.size(), 7);
    while (n_done < 50) {
      const Status status = decode_batch(sessions, next);
      ASSERT_TRUE(status.ok() || status.code() == Code::busy) << status.message();
      n_done += status.ok();
    }
  };
  int first = 0, second = 0;
  std::thread other([&] { steps({&b, &c, &a}, second); });
  steps({&a, &b}, first);
  other.join();
  EXPECT_EQ(a.n_past(), 110);
  EXPECT_EQ(b.n_past(), 110);
  EXPECT_EQ(c.n_past(), 60);
}

TEST(BatchStep, ACancelledSessionStopsTheStepAndChangesNothing) {
  const std::vector<Token> tokens = some_tokens(10);
  Session a = session_of(model(), tokens), b = session_of(model(), tokens);
  Session* const sessions[] = {&a, &b};
  std::atomic<bool> done = false;
  std::thread canceller([&] {
    while (!done) b.cancel();
  });
  Status status;
  int n_done = 0;
  while ((status = decode_batch(sessions, std::vector{7, 7})).ok() && n_done < 5000) ++n_done;
  done = true;
  canceller.join();
  ASSERT_EQ(status.code(), Code::cancelled) << status.message();
  EXPECT_TRUE(status.message().starts_with("session 1: ")) << status.message();
  EXPECT_EQ(a.n_past(), 10 + n_done);
  EXPECT_EQ(b.n_past(), 10 + n_done);
  EXPECT_EQ(logits_of(a), logits_of(b));
  EXPECT_TRUE(decode_batch(sessions, std::vector{7, 7}).ok())
      << "a finished cancel() has no effect on the next call";
}

}  // namespace
}  // namespace engine
