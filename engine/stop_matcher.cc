#include "engine/stop_matcher.h"

#include <cassert>
#include <utility>

namespace engine {

StopMatcher::Pattern::Pattern(std::string stop) : text(std::move(stop)), border(text.size()) {
  assert(!text.empty());
  for (std::size_t i = 1, n = 0; i < text.size(); ++i) {
    while (n > 0 && text[i] != text[n]) n = border[n - 1];
    if (text[i] == text[n]) ++n;
    border[i] = n;
  }
}

bool StopMatcher::Pattern::push(char c) {
  while (n_matched > 0 && text[n_matched] != c) n_matched = border[n_matched - 1];
  if (text[n_matched] == c) ++n_matched;
  return n_matched == text.size();
}

StopMatcher::StopMatcher(std::vector<std::string> stops) {
  for (std::string& stop : stops) patterns_.emplace_back(std::move(stop));
}

const StopMatcher::Pattern* StopMatcher::push(char c) {
  const Pattern* longest = nullptr;
  for (Pattern& pattern : patterns_)
    if (pattern.push(c) && (longest == nullptr || pattern.text.size() > longest->text.size()))
      longest = &pattern;
  return longest;
}

std::string_view StopMatcher::held() const {
  std::string_view longest;
  for (const Pattern& pattern : patterns_)
    if (pattern.n_matched > longest.size())
      longest = std::string_view(pattern.text).substr(0, pattern.n_matched);
  return longest;
}

std::string StopMatcher::push(std::string_view text) {
  if (match_ != nullptr) return {};
  const std::string_view before = held();
  std::size_t n_pushed = 0;
  std::size_t n_kept = 0;  // bytes at the end that must not come out
  while (n_pushed < text.size() && match_ == nullptr)
    if (const Pattern* pattern = push(text[n_pushed++])) {
      match_ = &pattern->text;
      n_kept = match_->size();
    }
  if (match_ == nullptr) n_kept = held().size();
  // `before` and the text read make one string; what comes out is its head.
  const std::size_t n_out = before.size() + n_pushed - n_kept;
  std::string out(before.substr(0, n_out));
  out += text.substr(0, n_out - out.size());
  return out;
}

std::string StopMatcher::flush() {
  if (match_ != nullptr) return {};
  std::string rest(held());
  for (Pattern& pattern : patterns_) pattern.n_matched = 0;
  return rest;
}

}  // namespace engine
