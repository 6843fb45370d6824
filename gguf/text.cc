#include <algorithm>
#include <array>

#include "gguf/reader.h"
#include "gguf/utf8.h"

namespace engine::gguf {

std::string printable(std::string_view text, std::size_t max_bytes) {
  constexpr char kHex[] = "0123456789ABCDEF";
  std::string shown;
  while (!text.empty()) {
    const CodePoint c = first_code_point(text);
    const std::size_t size = std::max<std::size_t>(c.size, 1);
    const bool escape = c.size == 0 || is_control(c.value);
    if (shown.size() + (escape ? 4 * size : size) > max_bytes) return shown + "...";
    for (const char byte : text.substr(0, size)) {
      const auto value = static_cast<unsigned char>(byte);
      if (escape)
        shown.append({'\\', 'x', kHex[value >> 4], kHex[value & 15]});
      else
        shown.push_back(byte);
    }
    text.remove_prefix(size);
  }
  return shown;
}

std::string_view name(ValueType type) noexcept {
  static constexpr std::array<std::string_view, 13> kNames = {
      "u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
      "bool", "string", "array", "u64", "i64", "f64"};
  const auto index = static_cast<std::size_t>(type);
  return index < kNames.size() ? kNames[index] : "unknown";
}

}  // namespace engine::gguf
