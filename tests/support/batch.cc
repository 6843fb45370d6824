#include "tests/support/batch.h"

#include <gtest/gtest.h>

#include "tests/support/same_bits.h"
#include "tests/support/sessions.h"

namespace engine::test {
namespace {

std::vector<Session> sessions_for(const Model& model, std::span<const std::vector<Token>> prompts,
                                  const SessionOptions& options) {
  std::vector<Session> sessions;
  for (const std::vector<Token>& prompt : prompts)
    sessions.push_back(session_of(model, prompt, options));
  return sessions;
}

}  // namespace

void expect_batch_as_alone(const Model& model, const Model& alone,
                           std::span<const std::vector<Token>> prompts, int n_steps,
                           const SessionOptions& options) {
  std::vector<Session> together = sessions_for(model, prompts, options);
  std::vector<Session> single = sessions_for(alone, prompts, options);
  std::vector<Session*> list;
  for (Session& session : together) list.push_back(&session);
  for (int step = 0; step < n_steps; ++step) {
    std::vector<Token> next;
    for (std::size_t i = 0; i < prompts.size(); ++i)
      next.push_back(20 + 31 * step + static_cast<int>(i));
    const Status status = decode_batch(list, next);
    ASSERT_TRUE(status.ok()) << status.message();
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      ASSERT_TRUE(single[i].decode({&next[i], 1}).ok());
      EXPECT_EQ(together[i].n_past(), single[i].n_past());
      const auto got = together[i].logits(), expected = single[i].logits();
      ASSERT_TRUE(got && expected);
      EXPECT_TRUE(same_bits(*got, *expected))
          << "session " << i << " of " << prompts.size() << " with a prompt of "
          << prompts[i].size() << ", step " << step;
    }
  }
}

}  // namespace engine::test
