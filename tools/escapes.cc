#include "tools/escapes.h"

#include <algorithm>
#include <charconv>
#include <system_error>

namespace engine::tools {
namespace {

// The byte of the escape sequence at the start of `text`; size is 0 if it is none.
struct Escape {
  char byte = 0;
  std::size_t size = 0;
};

Escape parse_escape(std::string_view text) {
  if (text.size() < 2 || text[0] != '\\') return {};
  switch (text[1]) {
    case 'n':
      return {'\n', 2};
    case 't':
      return {'\t', 2};
    case 'r':
      return {'\r', 2};
    case '\\':
      return {'\\', 2};
    case 'x':
      break;
    default:
      return {};
  }
  unsigned value = 0;
  const std::string_view digits = text.substr(2, 2);
  const char* end = digits.data() + digits.size();
  const auto parsed = std::from_chars(digits.data(), end, value, 16);
  if (digits.size() < 2 || parsed.ec != std::errc() || parsed.ptr != end) return {};
  return {static_cast<char>(value), 4};
}

}  // namespace

std::string expand_escapes(std::string_view text) {
  std::string expanded;
  while (!text.empty()) {
    const Escape escape = parse_escape(text);
    expanded += escape.size > 0 ? escape.byte : text[0];
    text.remove_prefix(std::max<std::size_t>(escape.size, 1));
  }
  return expanded;
}

}  // namespace engine::tools
