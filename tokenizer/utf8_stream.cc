#include "tokenizer/utf8_stream.h"

#include <cstddef>

#include "gguf/utf8.h"

namespace engine::tokenizer {

namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD
constexpr std::size_t kMaxCharacterBytes = 4;

// Whether more bytes could make `bytes` a character. Only the second byte of a character has a
// range that depends on the first, and every such range reaches the lowest or the highest
// continuation byte: filling up with either one decides.
bool is_beginning(std::string_view bytes) {
  for (const char fill : {'\x80', '\xBF'}) {
    std::string filled(bytes);
    filled.resize(kMaxCharacterBytes, fill);
    if (gguf::first_code_point(filled).size > bytes.size()) return true;
  }
  return false;
}

// Bytes that one U+FFFD replaces at the start of `bytes`, where no character starts.
std::size_t invalid_size(std::string_view bytes) {
  std::size_t size = 1;
  while (size < bytes.size() && is_beginning(bytes.substr(0, size + 1))) ++size;
  return size;
}

}  // namespace

std::string Utf8Stream::push(std::string_view bytes) {
  held_ += bytes;
  std::string out;
  std::string_view rest = held_;
  while (!rest.empty()) {
    if (const std::size_t size = gguf::first_code_point(rest).size; size != 0) {
      out += rest.substr(0, size);
      rest.remove_prefix(size);
    } else if (rest.size() < kMaxCharacterBytes && is_beginning(rest)) {
      break;
    } else {
      out += kReplacement;
      rest.remove_prefix(invalid_size(rest));
    }
  }
  held_.erase(0, held_.size() - rest.size());
  return out;
}

std::string Utf8Stream::flush() {
  std::string out(held_.empty() ? std::string_view() : kReplacement);
  held_.clear();
  return out;
}

}  // namespace engine::tokenizer
