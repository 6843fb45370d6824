#include "tests/support/sessions.h"

#include <gtest/gtest.h>

namespace engine::test {

std::vector<Token> some_tokens(int n, int stride) {
  std::vector<Token> tokens = {2};
  for (int i = 1; i < n; ++i) tokens.push_back(10 + (i * stride) % 490);
  return tokens;
}

Session session_of(const Model& model, std::span<const Token> tokens,
                   const SessionOptions& options) {
  Session session = Session::create(model, options).value();
  const Status status = session.decode(tokens);
  EXPECT_TRUE(status.ok()) << status.message();
  return session;
}

std::vector<float> logits_of(Session& session) {
  const auto logits = session.logits();
  EXPECT_TRUE(logits) << logits.status().message();
  return {logits->begin(), logits->end()};
}

}  // namespace engine::test
