// Finds stop strings in text that comes in pieces, and holds back only what may still become part
// of one.
//
// Matching is on bytes, whatever the pieces. The match that ends first wins; of several that end at
// the same byte, the longest. Time is linear in the text, for each stop string.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace engine {

class StopMatcher {
 public:
  explicit StopMatcher(std::vector<std::string> stops);  // none of them empty
  StopMatcher(StopMatcher&&) = default;  // no copies: match() points into the object

  // The text that can be shown now: up to a match, or up to the longest end that begins a stop
  // string. After a match nothing more comes out.
  std::string push(std::string_view text);
  // What is held, for when the text ends here. Empty after a match.
  std::string flush();
  // The stop string found, or null.
  const std::string* match() const noexcept { return match_; }

 private:
  // The automaton of Knuth, Morris and Pratt.
  struct Pattern {
    std::string text;
    std::vector<std::size_t>
        border;                 // [i]: longest proper prefix of text[0..i] that also ends there
    std::size_t n_matched = 0;  // longest prefix of text that ends what was pushed

    explicit Pattern(std::string stop);
    bool push(char c);  // true if the whole of text ends here
  };

  const Pattern* push(char c);    // the longest pattern that ends with c, or null
  std::string_view held() const;  // always a prefix of some stop string, so nothing needs storing

  std::vector<Pattern> patterns_;
  const std::string* match_ = nullptr;
};

}  // namespace engine
