#include "tools/json.h"

#include <string_view>

namespace engine::tools {
namespace {

// Bytes of the control character U+007F to U+009F that `text`, in UTF-8, starts with; 0 if it does
// not.
std::size_t high_control_bytes(std::string_view text) {
  if (text[0] == '\x7F') return 1;
  return text.size() > 1 && text[0] == '\xC2' && static_cast<unsigned char>(text[1]) < 0xA0 ? 2 : 0;
}

// The last byte of such a character is its number.
std::string escape(char last_byte) {
  constexpr char kHex[] = "0123456789abcdef";
  const auto code = static_cast<unsigned char>(last_byte);
  return std::string("\\u00") + kHex[code >> 4] + kHex[code & 15];
}

}  // namespace

std::string to_line(const Json& json) {
  const std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  std::string line;
  line.reserve(text.size() + 1);
  for (std::string_view rest = text; !rest.empty();) {
    const std::size_t n = high_control_bytes(rest);
    if (n > 0)
      line += escape(rest[n - 1]);
    else
      line += rest[0];
    rest.remove_prefix(n > 0 ? n : 1);
  }
  return line + '\n';
}

}  // namespace engine::tools
