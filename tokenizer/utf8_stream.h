// Bytes in, valid UTF-8 out, without ever splitting a character.
#pragma once

#include <string>
#include <string_view>

namespace engine::tokenizer {

// The beginning of a character, at most three bytes, is held until the rest arrives. Bytes that can
// never become a character are replaced by U+FFFD at once, one for each longest beginning of a
// character among them (the Unicode standard's recommended practice).
class Utf8Stream {
 public:
  // Returns the text that has become complete.
  std::string push(std::string_view bytes);
  // Ends the stream: the beginning of a character becomes U+FFFD. The stream is empty again.
  std::string flush();

 private:
  std::string held_;
};

}  // namespace engine::tokenizer
