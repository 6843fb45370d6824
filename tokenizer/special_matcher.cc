#include "tokenizer/special_matcher.h"

#include <algorithm>
#include <utility>

namespace engine::tokenizer {

namespace {

std::uint8_t byte_at(std::string_view text, std::size_t i) {
  return static_cast<std::uint8_t>(text[i]);
}

}  // namespace

SpecialMatcher::SpecialMatcher(std::vector<Entry> entries) : entries_(std::move(entries)) {
  std::sort(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) {
    return a.text != b.text ? a.text < b.text : a.token < b.token;
  });
  const auto same_text = [](const Entry& a, const Entry& b) { return a.text == b.text; };
  entries_.erase(std::unique(entries_.begin(), entries_.end(), same_text), entries_.end());
  for (const Entry& entry : entries_) ++by_byte_[byte_at(entry.text, 0) + 1u];
  for (std::size_t b = 1; b < by_byte_.size(); ++b) by_byte_[b] += by_byte_[b - 1];
}

SpecialMatcher::Match SpecialMatcher::longest(std::string_view text) const noexcept {
  Match match;
  // The sorted entries are walked like a trie: [first, last) are those that start with the first
  // `depth` bytes of the text and are longer than that.
  auto first = entries_.begin() + by_byte_[byte_at(text, 0)];
  auto last = entries_.begin() + by_byte_[byte_at(text, 0) + 1u];
  for (std::size_t depth = 1; first != last; ++depth) {
    if (first->text.size() == depth) {  // the shortest sorts first
      match = {first->token, depth};
      ++first;
    }
    if (depth == text.size()) break;
    const std::uint8_t next = byte_at(text, depth);
    first = std::partition_point(first, last,
                                 [&](const Entry& e) { return byte_at(e.text, depth) < next; });
    last = std::partition_point(first, last,
                                [&](const Entry& e) { return byte_at(e.text, depth) == next; });
  }
  return match;
}

SpecialMatcher::Match SpecialMatcher::exact(std::string_view text) const noexcept {
  const auto at = std::lower_bound(entries_.begin(), entries_.end(), text,
                                   [](const Entry& e, std::string_view t) { return e.text < t; });
  if (at == entries_.end() || at->text != text) return {};
  return {at->token, text.size()};
}

}  // namespace engine::tokenizer
