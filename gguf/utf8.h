// Text from files, judged before it is trusted or shown.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace engine::gguf {

// A code point and the bytes it takes. size 0: the text does not start with a valid UTF-8 sequence
// (overlong forms, surrogates and values above U+10FFFF are invalid).
struct CodePoint {
  char32_t value = 0;
  std::size_t size = 0;
};

inline CodePoint first_code_point(std::string_view text) noexcept {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  if (text.empty()) return {};
  const std::uint8_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const std::size_t size = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < size) return {};
  auto value = static_cast<char32_t>(lead & (0x7F >> size));
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {};
    value = value << 6 | (byte(i) & 0x3Fu);
  }
  constexpr char32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = value >= 0xD800 && value <= 0xDFFF;
  if (value < kSmallest[size] || value > 0x10FFFF || surrogate) return {};
  return {value, size};
}

// C0, DEL and C1: what a terminal may obey.
constexpr bool is_control(char32_t c) noexcept { return c < 0x20 || (c >= 0x7F && c < 0xA0); }

inline bool is_utf8(std::string_view text) noexcept {
  while (!text.empty()) {
    const CodePoint c = first_code_point(text);
    if (c.size == 0) return false;
    text.remove_prefix(c.size);
  }
  return true;
}

// Valid UTF-8 without control characters: what a key or a tensor name must be.
inline bool is_plain_text(std::string_view text) noexcept {
  while (!text.empty()) {
    const CodePoint c = first_code_point(text);
    if (c.size == 0 || is_control(c.value)) return false;
    text.remove_prefix(c.size);
  }
  return true;
}

}  // namespace engine::gguf
