// Finds the tokens that are taken from a text as a whole, before any merging: user-defined and
// control tokens. The longest one wins.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace engine::tokenizer {

class SpecialMatcher {
 public:
  struct Entry {
    std::string_view text;  // not empty; its bytes must outlive the matcher
    std::int32_t token;
  };
  struct Match {
    std::int32_t token = -1;
    std::size_t size = 0;  // bytes of text; 0 is no match
  };

  SpecialMatcher() = default;
  // Of entries with the same text the lowest token is kept.
  explicit SpecialMatcher(std::vector<Entry> entries);

  // The longest entry that non-empty `text` starts with.
  Match longest(std::string_view text) const noexcept;
  // The entry that is all of `text`.
  Match exact(std::string_view text) const noexcept;

 private:
  std::vector<Entry> entries_;  // sorted by text
  // Entries that start with byte b: [by_byte_[b], by_byte_[b + 1]).
  std::array<std::uint32_t, 257> by_byte_ = {};
};

}  // namespace engine::tokenizer
