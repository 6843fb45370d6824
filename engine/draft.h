// Guessing the tokens that come next from those that have been (prompt lookup), for a step that checks the
// guesses and costs less than one step for each of them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/engine.h"

namespace engine {

// What followed when the last tokens stood there before: text that repeats is copied from its latest earlier
// place, and a copy goes on with the token that came next at its source. Takes 4 bytes a token and 128 KiB;
// constant time a token. Appending may throw std::bad_alloc.
class NgramDraft {
 public:
  void append(Token token);
  // At most n tokens that may come next; none where nothing is copied. A copy that reaches the text's end
  // goes on with itself, so that periods shorter than n are drafted, too.
  std::vector<Token> propose(std::size_t n) const;

  // Tokens that have to be the same for a copy to begin. With three, prose begins too many that fail; with
  // five, edited code begins too few.
  static constexpr std::size_t kGram = 4;

 private:
  static constexpr int kTableBits = 15;
  // After so many tokens of a copy, a single one that differs (a name that was replaced) does not end it.
  static constexpr std::size_t kTrusted = 8;

  void follow(Token token);
  bool ends_as_text(std::size_t end) const;
  std::int32_t& latest_end();

  std::vector<Token> tokens_;
  // By hash of kGram tokens: where their latest occurrence ends; 0: nowhere.
  std::vector<std::int32_t> ends_;
  std::size_t source_ = 0;    // where the copy goes on; 0: there is none
  std::size_t n_copied_ = 0;  // since it began, or since the last token that differed
};

// How many tokens to draft, so that a text whose drafts fail loses at most 2 % of its time and half a step.
//
// An account in steps: a drafted token costs kColumn, an accepted one saves a step, and a step without a
// draft earns the 2 %; a draft has to be covered. Drafts grow while they are accepted whole.
class DraftBudget {
 public:
  // Tokens that the next step may draft.
  int n_allowed() const noexcept { return std::min(n_next_, credit_ / kColumn); }
  // After each step.
  void count(int n_drafted, int n_accepted) noexcept;

 private:
  // In hundredths of the time of a step without a draft. A column more costs 0.3 to 0.45 of it on a CPU with
  // AVX2 and two threads, and less where memory is slower than arithmetic.
  static constexpr int kStep = 100, kColumn = 40, kEarned = 2, kAtFirst = 50, kMost = 6 * kStep;

  int credit_ = kAtFirst;
  int n_next_ = 1;
};

}  // namespace engine
