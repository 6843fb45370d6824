#include "gguf/result.h"

#include <array>

namespace engine {

std::string_view name(Code code) noexcept {
  static constexpr std::array<std::string_view, 14> kNames = {
      "ok",           "invalid_argument", "io",
      "corrupt_file", "unsupported",      "out_of_memory",
      "context_full", "device",           "cancelled",
      "busy",         "forked",           "non_finite",
      "internal",     "device_lost"};
  const auto index = static_cast<std::size_t>(code);
  return index < kNames.size() ? kNames[index] : "unknown";
}

std::string_view name(Detail detail) noexcept {
  static constexpr std::array<std::string_view, 21> kNames = {
      "NONE",    "TRUNC", "MAGIC",  "VERSION", "ENDIAN",      "LIMIT",  "KEY",
      "TYPE",    "DUP",   "ALIGN",  "SHAPE",   "SIZE",        "OFFSET", "OVERLAP",
      "MISSING", "ARCH",  "HPARAM", "VOCAB",   "UNSUPPORTED", "VALUE",  "IO"};
  const auto index = static_cast<std::size_t>(detail);
  return index < kNames.size() ? kNames[index] : "UNKNOWN";
}

}  // namespace engine
