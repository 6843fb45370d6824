// What is drafted from a text, and how many tokens a budget lets it be.
#include "engine/draft.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <span>
#include <vector>

#include "tests/support/random.h"

namespace engine {
namespace {

using Tokens = std::vector<Token>;

NgramDraft draft_of(std::span<const Token> text) {
  NgramDraft draft;
  for (const Token token : text) draft.append(token);
  return draft;
}

Tokens proposed(const Tokens& text, std::size_t n = 7) { return draft_of(text).propose(n); }

TEST(NgramDraft, NeedsFourTokensThatWereThereBefore) {
  EXPECT_EQ(proposed({}), Tokens());
  EXPECT_EQ(proposed({1, 2, 3, 4}), Tokens());
  EXPECT_EQ(proposed({9, 1, 2, 3, 5, 6, 7, 8, 1, 2, 3}), Tokens());
  EXPECT_EQ(proposed({9, 1, 2, 3, 4, 6, 7, 8, 1, 2, 3, 4}, 3), Tokens({6, 7, 8}));
  EXPECT_EQ(proposed({9, 1, 2, 3, 4, 6, 7, 8, 1, 2, 3, 4}, 0), Tokens());
}

TEST(NgramDraft, CopiesTheLatestPlace) {
  EXPECT_EQ(proposed({1, 2, 3, 4, 50, 1, 2, 3, 4, 60, 1, 2, 3, 4}, 1), Tokens({60}));
}

// Where the text has come along a copy, a later place that ends like it does not take it over.
TEST(NgramDraft, StaysWithACopyAsLongAsItLasts) {
  const Tokens text = {10, 11, 12, 13, 1, 2, 3, 4, 50, 51, 20, 21, 1, 2, 3, 4, 60, 61};
  Tokens copy = text;
  copy.insert(copy.end(), {10, 11, 12, 13, 1, 2, 3, 4});
  EXPECT_EQ(proposed(copy, 2), Tokens({50, 51}));
  Tokens other = text;
  other.insert(other.end(), {30, 31, 32, 33, 1, 2, 3, 4});
  EXPECT_EQ(proposed(other, 2), Tokens({60, 61})) << "without such a copy it is the latest place";
}

TEST(NgramDraft, GoesOnWithItselfAtTheEnd) {
  EXPECT_EQ(proposed({1, 1, 1, 1, 1}, 7), Tokens(7, 1));
  EXPECT_EQ(proposed({1, 2, 3, 1, 2, 3, 1}, 7), Tokens({2, 3, 1, 2, 3, 1, 2}));
}

TEST(NgramDraft, ASingleOtherTokenEndsOnlyAShortCopy) {
  Tokens text;
  for (Token token = 1; token <= 30; ++token) text.push_back(token);
  const auto with_copy = [&](Token n, std::initializer_list<Token> then) {
    Tokens all = text;
    for (Token token = 1; token <= n; ++token) all.push_back(token);
    all.insert(all.end(), then);
    return all;
  };
  EXPECT_EQ(proposed(with_copy(7, {99}), 3), Tokens());
  EXPECT_EQ(proposed(with_copy(8, {99}), 3), Tokens({10, 11, 12}));
  EXPECT_EQ(proposed(with_copy(8, {99, 10}), 3), Tokens({11, 12, 13}));
  EXPECT_EQ(proposed(with_copy(8, {99, 98}), 3), Tokens());
  EXPECT_EQ(proposed(with_copy(8, {99, 10, 98}), 3), Tokens());
}

// A draft is always what followed the same four tokens somewhere, or goes on with a copy from there; and in
// text of which every place has its own four tokens there is none.
TEST(NgramDraft, DraftsWhatHasFollowedTheSameTokens) {
  test::Random random(7);
  Tokens text;
  std::map<Tokens, Tokens> followers;  // of four tokens
  NgramDraft draft;
  int n_drafts = 0;
  for (int i = 0; i < 20'000; ++i) {
    const auto token = static_cast<Token>(random.below(5));
    if (text.size() >= 4) followers[Tokens(text.end() - 4, text.end())].push_back(token);
    text.push_back(token);
    draft.append(token);
    const Tokens next = draft.propose(1);
    if (next.empty() || text.size() < 4) continue;
    const Tokens& seen = followers[Tokens(text.end() - 4, text.end())];
    // Else a copy that a single token has not ended; such tokens are random, too, so it is rare.
    n_drafts += std::find(seen.begin(), seen.end(), next[0]) != seen.end() ? 1 : 0;
  }
  EXPECT_GT(n_drafts, 18'000);

  Tokens all_different(100'000);
  for (std::size_t i = 0; i < all_different.size(); ++i) all_different[i] = static_cast<Token>(i);
  NgramDraft none;
  for (const Token token : all_different) {
    none.append(token);
    ASSERT_TRUE(none.propose(7).empty()) << "after " << token;
  }
}

TEST(DraftBudget, DraftsGrowWhileTheyAreAccepted) {
  DraftBudget budget;
  EXPECT_EQ(budget.n_allowed(), 1);
  for (const int n : {1, 2, 4, 8}) {
    ASSERT_GE(budget.n_allowed(), n);
    budget.count(n, n);
  }
  budget.count(7, 3);
  EXPECT_EQ(budget.n_allowed(), 4);
  budget.count(4, 0);
  EXPECT_EQ(budget.n_allowed(), 1);
}

TEST(DraftBudget, FailuresAreRareInALongText) {
  DraftBudget budget;
  int n_drafted = 0;
  constexpr int kSteps = 10'000;
  for (int step = 0; step < kSteps; ++step) {
    const int n = std::min(budget.n_allowed(), 7);
    budget.count(n, 0);
    n_drafted += n;
  }
  EXPECT_LE(0.4 * n_drafted, 0.02 * kSteps + 0.5);
  EXPECT_GE(0.4 * n_drafted, 0.01 * kSteps) << "but it goes on trying";
}

TEST(DraftBudget, SuccessIsNotSavedUpForLong) {
  DraftBudget budget;
  for (int i = 0; i < 1000; ++i) budget.count(7, 7);
  int n_failed = 0;
  while (budget.n_allowed() > 0 && n_failed < 1000) {
    budget.count(budget.n_allowed(), 0);
    ++n_failed;
  }
  EXPECT_LT(n_failed, 16);
}

}  // namespace
}  // namespace engine
