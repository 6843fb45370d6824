// U+2581, which SentencePiece writes where a text has a space.
#pragma once

#include <cstddef>
#include <string_view>

namespace engine::tokenizer {

// Appends `text` with every U+2581 as a space to a string or a vector of char.
template <class Chars>
void append_with_spaces(std::string_view text, Chars& out) {
  constexpr std::string_view kSpaceMark = "\xE2\x96\x81";
  for (std::size_t at; (at = text.find(kSpaceMark)) != std::string_view::npos;
       text.remove_prefix(at + kSpaceMark.size())) {
    out.insert(out.end(), text.data(), text.data() + at);
    out.push_back(' ');
  }
  out.insert(out.end(), text.begin(), text.end());
}

}  // namespace engine::tokenizer
