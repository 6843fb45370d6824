// What evaluating tokens allocates, and what a session is worth after an allocation has failed.
#include <gtest/gtest.h>

#include <vector>

#include "engine/engine.h"
#include "engine/session_access.h"
#include "tests/support/heap_meter.h"
#include "tests/support/sessions.h"
#include "tests/support/tiny_model.h"

namespace engine {
namespace {

using test::logits_of;
using test::session_of;
using test::some_tokens;

const Model& model() {
  static const Model loaded = [] {
    const test::Bytes file = test::tiny_model(gguf::Type::q8_0, {.n_ctx = 1000}).build();
    return Model::load(std::span(file), {.n_threads = 2}).value();
  }();
  return loaded;
}

TEST(Memory, AStepWithinAPageAllocatesNothing) {
  Session session = session_of(model(), some_tokens(80));
  ASSERT_TRUE(session.logits());
  const Token next = 20;
  ASSERT_TRUE(session.decode({&next, 1}).ok()) << "makes room for as many tokens again";
  bool ok = true;
  const test::FailingHeap heap(0);
  for (int i = 81; i < 128; ++i) ok = ok && session.decode({&next, 1}).ok() && session.logits();
  EXPECT_FALSE(heap.has_failed());
  EXPECT_TRUE(ok);
}

// A prompt of three pages in two chunks, of which one finds no memory for page `n`, and so on.
TEST(Memory, AfterAFailedAllocationTheFinishedChunksStand) {
  const std::vector<Token> tokens = some_tokens(150);
  const std::vector<Token> more(tokens.begin() + 60, tokens.end());
  int n = 0;
  for (bool failed = true; failed; ++n) {
    Session session = Session::create(model(), {.n_chunk = 70}).value();
    ASSERT_TRUE(session.decode(std::span(tokens).first(60)).ok());
    Status status;
    {
      const test::FailingHeap heap(n);
      status = session.decode(more);
      failed = heap.has_failed();
    }
    EXPECT_EQ(status.code(), failed ? Code::out_of_memory : Code::ok) << n;
    const auto held = static_cast<std::size_t>(session.n_past());
    EXPECT_TRUE(held == 60 || held == 130 || held == 150) << held;
    Session fresh = session_of(model(), std::span(tokens).first(held));
    EXPECT_EQ(logits_of(session), logits_of(fresh)) << "allocation " << n << " failed";
  }
  EXPECT_GT(n, 3);
}

// Two sessions, one of which needs pages: the step happens for both or for neither.
TEST(Memory, AFailedAllocationInABatchChangesNoSession) {
  const std::vector<Token> tokens = some_tokens(64);
  int n = 0;
  for (bool failed = true; failed; ++n) {
    Session a = session_of(model(), tokens), b = session_of(model(), std::span(tokens).first(20));
    const std::vector<float> before[] = {logits_of(a), logits_of(b)};
    Session* const sessions[] = {&a, &b};
    const Token next[] = {7, 8};
    Status status;
    {
      const test::FailingHeap heap(n);
      status = decode_batch(sessions, next);
      failed = heap.has_failed();
    }
    EXPECT_EQ(status.code(), failed ? Code::out_of_memory : Code::ok) << n;
    if (!failed) break;
    EXPECT_EQ(a.n_past(), 64) << n;
    EXPECT_EQ(b.n_past(), 20) << n;
    EXPECT_EQ(logits_of(a), before[0]) << n;
    EXPECT_EQ(logits_of(b), before[1]) << n;
  }
  EXPECT_GT(n, 3);
}

// A step with a draft that reaches into the next page. Memory that only the draft lacks is no error.
TEST(Memory, AfterAFailedAllocationOfAStepItsTokenIsHeldOrNot) {
  const std::vector<Token> tokens = some_tokens(61), draft = some_tokens(7);
  const SamplerOptions greedy = {.temperature = 0};
  int n = 0, n_failed = 0;
  for (bool failed = true; failed; ++n) {
    Session session = session_of(model(), std::span(tokens).first(60));
    Result<std::vector<Token>> chosen = std::vector<Token>();
    {
      const test::FailingHeap heap(n);
      chosen = SessionAccess::decode_and_sample(session, tokens.back(), draft, greedy);
      failed = heap.has_failed();
    }
    n_failed += chosen ? 0 : 1;
    EXPECT_EQ(chosen.status().code(), chosen ? Code::ok : Code::out_of_memory) << n;
    const auto held = static_cast<std::size_t>(session.n_past());
    EXPECT_TRUE(held == 61 || (held == 60 && !chosen)) << held;
    Session fresh = session_of(model(), std::span(tokens).first(held));
    EXPECT_EQ(logits_of(session), logits_of(fresh)) << "allocation " << n << " failed";
    if (chosen) {
      EXPECT_EQ(chosen->front(), fresh.sample(greedy).value()) << n;
    }
  }
  EXPECT_GT(n_failed, 3);
}

}  // namespace
}  // namespace engine
