// Sessions on a device that samples by itself and fails when told to: the CPU backend in disguise.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <vector>

#include "engine/session_access.h"
#include "engine/session_impl.h"
#include "kernels/op/sample.h"
#include "kernels/op/top_logits.h"
#include "tests/support/model_file.h"
#include "tests/support/same_bits.h"
#include "tests/support/sessions.h"

namespace engine {
namespace {

using test::same_bits;
using test::some_tokens;

class FailingDevice : public Backend {
 public:
  FailingDevice(std::unique_ptr<Backend> cpu, int n_vocab)
      : cpu_(std::move(cpu)), n_vocab_(n_vocab) {}

  std::string name() const override { return "failing"; }
  int most_rows() const override { return 7; }
  KvMemory& kv_memory() override { return cpu_->kv_memory(); }
  Status run_layers(std::span<const std::int32_t> tokens, std::span<const op::KvRow> rows,
                    std::span<const KvCache* const> caches, int n_wanted) override {
    EXPECT_LE(rows.size(), 7u);
    is_busy_ = true;
    if (on_layers) on_layers();
    return cpu_->run_layers(tokens, rows, caches, n_wanted);
  }
  const float* hidden_rows() const override { return cpu_->hidden_rows(); }
  void keep_hidden(const float* row, float* to) override {
    is_busy_ = true;
    cpu_->keep_hidden(row, to);
  }
  Status wait() override {
    if (!std::exchange(is_busy_, false)) return {};
    ++n_waits;
    return std::exchange(next_error, {});
  }
  Status run_head(const float* hidden, int n_rows, float* logits) override {
    ENGINE_TRY(cpu_->run_head(hidden, n_rows, logits));
    is_busy_ = true;
    return wait();
  }
  int most_candidates() const override { return 64; }
  Status choose(const float* hidden_rows, int n_rows, int k, int n_ids,
                std::span<const op::Draw> draws, std::span<op::Choice> choices) override {
    n_choices += n_rows;
    const auto n = static_cast<std::size_t>(n_rows);
    std::vector<float> logits(n * static_cast<std::size_t>(n_vocab_)), values(n * 64);
    std::vector<std::int32_t> ids(n * 64);
    std::vector<std::uint32_t> non_finite(n);
    ENGINE_TRY(run_head(hidden_rows, n_rows, logits.data()));
    ref::top_logits(
        {logits.data(), ids.data(), values.data(), non_finite.data(), n_rows, n_vocab_, n_ids, k});
    ref::sample(
        {values.data(), ids.data(), non_finite.data(), draws.data(), choices.data(), n_rows, k});
    return {};
  }

  Status next_error;  // of what is waited for next
  std::function<void()> on_layers;
  int n_waits = 0, n_choices = 0;

 private:
  std::unique_ptr<Backend> cpu_;
  int n_vocab_;
  bool is_busy_ = false;
};

class Sessions : public testing::TestWithParam<Code> {
 protected:
  // Puts the device in the place of the model's backend.
  static FailingDevice* disguise(const Model& model) {
    Session session = test::session_of(model, {});
    auto& backend =
        const_cast<std::unique_ptr<Backend>&>(SessionAccess::impl(session)->shared.backend);
    auto device = std::make_unique<FailingDevice>(std::move(backend), model.info().n_vocab);
    FailingDevice* const raw = device.get();
    backend = std::move(device);
    return raw;
  }
  static Model load() {
    auto model = Model::load(test::golden_file("tiny/tiny-gqa-Q8_0.gguf"), {.device = Device::cpu});
    EXPECT_TRUE(model) << model.status().message();
    return *std::move(model);
  }
  void fail(Code code) { device_->next_error = Status(code, "attention: it failed"); }
  Session other() const {
    auto session = Session::create(model_);
    EXPECT_TRUE(session);
    return *std::move(session);
  }

  Model model_ = load();
  FailingDevice* device_ = disguise(model_);
  Session session_ = other();
  const std::vector<Token> tokens_ = some_tokens(20);
};

TEST_F(Sessions, ADeviceChoosesWhatTheCpuChooses) {
  const Model cpu = load();
  std::vector<SamplerOptions> all = {{.temperature = 0},
                                     {.top_k = 1},
                                     {.temperature = 2e-4f},
                                     {.temperature = 3, .top_p = 1},
                                     {.temperature = 2, .top_k = 5},
                                     {.temperature = 2, .top_p = 0},
                                     {.top_p = 1e-30f},
                                     {.temperature = 2, .top_k = 40, .top_p = 1, .min_p = 0.2f},
                                     {.temperature = 2, .min_p = 1},
                                     // Which the CPU's sampler has to do:
                                     {.temperature = 2, .top_k = 0},
                                     {.temperature = 2, .top_k = 65},
                                     {.temperature = 2, .repeat_penalty = 1.3f}};
  for (const SamplerOptions& options : all)
    for (const std::uint64_t seed : {1u, 2u, 3u}) {
      SCOPED_TRACE(&options - all.data());
      SamplerOptions seeded = options;
      seeded.seed = seed;
      Session here = other(), there = test::session_of(cpu, {});
      const auto answer = generate(here, seeded, tokens_, {.max_tokens = 6, .ignore_eos = true});
      const auto expected = generate(there, seeded, tokens_, {.max_tokens = 6, .ignore_eos = true});
      ASSERT_TRUE(answer && expected) << answer.status().message();
      EXPECT_EQ(answer->ids, expected->ids);
      // Of a session whose token was chosen without them.
      EXPECT_TRUE(same_bits(test::logits_of(here), test::logits_of(there)));
      EXPECT_EQ(here.sample(seeded).value(), there.sample(seeded).value());
    }
  EXPECT_EQ(device_->n_choices, 9 * 3 * 6) << "of the first nine options alone";
}

TEST_F(Sessions, WaitForATokenOnce) {
  ASSERT_TRUE(generate(session_, {.temperature = 0}, tokens_, {.max_tokens = 1}));
  device_->n_waits = 0;
  const auto next = SessionAccess::decode_and_sample(session_, 5, {}, {.temperature = 0});
  ASSERT_TRUE(next);
  EXPECT_EQ(device_->n_choices, 2);
  EXPECT_EQ(device_->n_waits, 1);
}

TEST_P(Sessions, ABrokenOneStaysSoAndOthersGoOn) {
  const auto broken = [&](const Status& status) {
    EXPECT_EQ(status.code(), GetParam());
    EXPECT_NE(status.message().find("attention: it failed"), std::string::npos) << status.message();
  };
  Session whole = other();
  ASSERT_TRUE(session_.decode(std::span(tokens_).first(7)).ok());
  fail(GetParam());
  broken(session_.decode(std::span(tokens_).subspan(7)));
  EXPECT_EQ(session_.n_past(), 7) << "the chunk that failed was not appended";

  broken(session_.decode(std::span(tokens_).subspan(7)));
  broken(session_.logits().status());
  broken(session_.sample({}).status());
  broken(session_.score(tokens_).status());
  broken(session_.rewind(0).status());
  broken(generate(session_, {}, tokens_).status());
  ASSERT_TRUE(whole.decode(tokens_).ok());
  const std::vector<Session*> both = {&whole, &session_};
  const Status status = decode_batch(both, std::vector<Token>{1, 2});
  broken(status);
  EXPECT_TRUE(status.message().starts_with("session 1: ")) << status.message();

  EXPECT_TRUE(same_bits(test::logits_of(whole), test::logits_after(load(), tokens_, {})));
}

TEST_P(Sessions, AllOfABatchBreak) {
  Session other_one = other();
  const std::vector<Session*> both = {&session_, &other_one};
  ASSERT_TRUE(decode_batch(both, std::vector<Token>{1, 2}).ok());
  fail(GetParam());
  EXPECT_EQ(decode_batch(both, std::vector<Token>{3, 4}).code(), GetParam());
  for (Session* session : both) {
    EXPECT_EQ(session->n_past(), 1);
    EXPECT_EQ(session->logits().status().code(), GetParam());
  }
}

TEST_P(Sessions, AnAnswerEndsWithTheError) {
  int n = 0;
  const auto answer = generate(session_, {.temperature = 0}, tokens_, {.ignore_eos = true},
                               [&](Token, std::string_view) {
                                 if (++n == 3) fail(GetParam());
                                 return true;
                               });
  EXPECT_EQ(answer.status().code(), GetParam());
  EXPECT_EQ(session_.n_past(), 20 + 2);
}

INSTANTIATE_TEST_SUITE_P(Of, Sessions, testing::Values(Code::device, Code::device_lost),
                         [](const auto& code) { return std::string(name(code.param)); });

TEST_F(Sessions, WhatACancelledPassLeavesIsItsOwnFailure) {
  Session whole = other();
  ASSERT_TRUE(session_.decode(std::span(tokens_).first(3)).ok());
  const std::vector<Session*> one = {&session_};
  device_->on_layers = [&] {  // once the pass has begun
    session_.cancel();
    fail(Code::device);
  };
  EXPECT_EQ(decode_batch(one, std::vector<Token>{5}).code(), Code::device);
  device_->on_layers = {};
  EXPECT_TRUE(whole.decode(tokens_).ok());
  EXPECT_EQ(session_.logits().status().code(), Code::device);
}

TEST_F(Sessions, LackOfMemoryBreaksNothing) {
  ASSERT_TRUE(session_.decode(std::span(tokens_).first(7)).ok());
  fail(Code::out_of_memory);
  EXPECT_EQ(session_.decode(std::span(tokens_).subspan(7)).code(), Code::out_of_memory);
  ASSERT_TRUE(session_.decode(std::span(tokens_).subspan(7)).ok());
  EXPECT_TRUE(same_bits(test::logits_of(session_), test::logits_after(load(), tokens_, {})));
}

}  // namespace
}  // namespace engine
