#include "engine/stop_matcher.h"

#include <gtest/gtest.h>

#include <chrono>
#include <random>

namespace engine {
namespace {

using Strings = std::vector<std::string>;

struct Outcome {
  Strings shown;  // after each piece, then by flush()
  std::string text;
  std::string match;
};

Outcome feed(const Strings& stops, const Strings& pieces) {
  StopMatcher matcher(stops);
  Outcome outcome;
  for (const std::string& piece : pieces) outcome.shown.push_back(matcher.push(piece));
  outcome.shown.push_back(matcher.flush());
  for (const std::string& shown : outcome.shown) outcome.text += shown;
  if (matcher.match() != nullptr) outcome.match = *matcher.match();
  return outcome;
}

TEST(StopMatcher, WithoutStopsAllPasses) {
  EXPECT_EQ(feed({}, {"a", "", "bc"}).shown, (Strings{"a", "", "bc", ""}));
}

TEST(StopMatcher, CutsBeforeAStopSplitOverPieces) {
  const Outcome outcome = feed({" gamma"}, {"beta", " gam", "ma"});
  EXPECT_EQ(outcome.shown, (Strings{"beta", "", "", ""}));
  EXPECT_EQ(outcome.match, " gamma");
}

TEST(StopMatcher, CutsInsideAPiece) {
  const Outcome outcome = feed({"DEFGHIJ"}, {"AB", "CD", "EF", "GHIJ", "K"});
  EXPECT_EQ(outcome.text, "ABC");
  EXPECT_EQ(outcome.match, "DEFGHIJ");
}

TEST(StopMatcher, ShowsWhatComesBeforeAStopInTheSamePiece) {
  EXPECT_EQ(feed({"\n"}, {"?\n"}).shown, (Strings{"?", ""}));
}

TEST(StopMatcher, NothingComesAfterAMatch) {
  EXPECT_EQ(feed({"x"}, {"axb", "c"}).shown, (Strings{"a", "", ""}));
}

TEST(StopMatcher, FlushGivesTheHeldBeginningOfAStop) {
  const Outcome outcome = feed({"STOP"}, {"one STO"});
  EXPECT_EQ(outcome.shown, (Strings{"one ", "STO"}));
  EXPECT_EQ(outcome.match, "");
}

TEST(StopMatcher, HoldsOnlyWhatBeginsAStop) {
  const std::string stop = "ab" + std::string(38, 'c');
  EXPECT_EQ(feed({stop}, {"xyz", "a", "a", "b", "c", "d"}).shown,
            (Strings{"xyz", "", "a", "", "", "abcd", ""}));
}

TEST(StopMatcher, FallsBackToAShorterBeginning) {
  // After "aab", an 'a' leaves "aa…" possible again.
  EXPECT_EQ(feed({"aabaac"}, {"aabaa", "b", "aac", "x"}).text, "aab");
  EXPECT_EQ(feed({"aaab"}, {"a", "a", "a", "a", "b"}).shown, (Strings{"", "", "", "a", "", ""}));
}

TEST(StopMatcher, MatchesOnBytes) {
  const Strings bytes = {"\xF0", "\x9F", "\x98", "\xB8"};
  EXPECT_EQ(feed({"\xF0\x9F\x98\xB8"}, {"a", bytes[0], bytes[1], bytes[2], bytes[3]}).text, "a");
  EXPECT_EQ(feed({"\xF0\x9F\x98\xB8"}, {bytes[0], bytes[1], "\x98\xB9"}).text, "\xF0\x9F\x98\xB9");
  EXPECT_EQ(feed({std::string("a\0b", 3)}, {std::string("xa\0", 3), "b"}).text, "x");
}

TEST(StopMatcher, TheMatchThatEndsFirstWins) {
  EXPECT_EQ(feed({"abcd", "bc"}, {"xabcd"}).text, "xa");
  EXPECT_EQ(feed({"bc", "abcd"}, {"xa", "bcd"}).match, "bc");
}

TEST(StopMatcher, TheLongestOfThoseThatEndTogetherWins) {
  for (const Strings& stops : {Strings{"c", "abc", "bc"}, Strings{"abc", "bc", "c"}}) {
    const Outcome outcome = feed(stops, {"xa", "bc"});
    EXPECT_EQ(outcome.text, "x");
    EXPECT_EQ(outcome.match, "abc");
  }
}

// What the class promises, by trying every position.
struct Expected {
  std::string text, match;
};
Expected slow_search(const Strings& stops, const std::string& text) {
  for (std::size_t end = 1; end <= text.size(); ++end) {
    std::string best;
    for (const std::string& stop : stops)
      if (stop.size() > best.size() && text.substr(0, end).ends_with(stop)) best = stop;
    if (!best.empty()) return {text.substr(0, end - best.size()), best};
  }
  return {text, ""};
}

std::string random_text(std::mt19937& random, std::size_t n) {
  std::string text;
  for (; n > 0; --n) text += static_cast<char>('a' + random() % 2);
  return text;
}

TEST(StopMatcher, EqualsASlowSearchHoweverTheTextIsCut) {
  std::mt19937 random(7);
  for (int round = 0; round < 5000; ++round) {
    Strings stops;
    for (std::size_t n = 1 + random() % 3; n > 0; --n)
      stops.push_back(random_text(random, 1 + random() % 7));
    const std::string text = random_text(random, random() % 30);
    Strings pieces;
    for (std::size_t at = 0; at < text.size();) {
      pieces.push_back(text.substr(at, random() % 4));
      at += pieces.back().size();
    }
    const Expected expected = slow_search(stops, text);
    const Outcome outcome = feed(stops, pieces);
    ASSERT_EQ(outcome.text, expected.text) << "text " << text << ", first stop " << stops[0];
    ASSERT_EQ(outcome.match, expected.match) << "text " << text << ", first stop " << stops[0];
  }
}

TEST(StopMatcher, HoldsNeverMoreThanNeeded) {
  std::mt19937 random(8);
  for (int round = 0; round < 2000; ++round) {
    const std::string stop = random_text(random, 2 + random() % 6);
    StopMatcher matcher({stop});
    std::string text, shown;
    while (text.size() < 20 && matcher.match() == nullptr) {
      const std::string piece = random_text(random, 1);
      text += piece;
      shown += matcher.push(piece);
      std::size_t n_held = std::min(text.size(), stop.size() - 1);
      while (!text.ends_with(stop.substr(0, n_held))) --n_held;
      if (matcher.match() == nullptr) {
        ASSERT_EQ(shown, text.substr(0, text.size() - n_held)) << stop;
      }
    }
  }
}

TEST(StopMatcher, IsLinear) {
  // A text that keeps a long stop all but complete: a quadratic search would take minutes.
  std::string stop(500'000, 'a');
  stop.push_back('b');
  StopMatcher matcher({stop});
  const auto start = std::chrono::steady_clock::now();
  std::size_t n_shown = 0;
  for (int i = 0; i < 1'000'000; ++i) n_shown += matcher.push("a").size();
  EXPECT_EQ(n_shown, 500'000u);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
}

}  // namespace
}  // namespace engine
