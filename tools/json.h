// JSON as the programs write it.
#pragma once

#include <charconv>
#include <nlohmann/json.hpp>
#include <string>

namespace engine::tools {

// Keeps members in the order they were added.
using Json = nlohmann::ordered_json;

// One line, newline included. Bytes that are not UTF-8 become U+FFFD: writing never fails. All
// control characters are escaped, because a terminal may obey those that JSON allows as well.
std::string to_line(const Json& json);

// The double that prints as `value` does: as few digits as identify the float (at most 9), instead
// of the 17 that its exact value has.
inline double short_float(float value) {
  char digits[32];
  const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  double result = 0;
  std::from_chars(digits, end, result);
  return result;
}

}  // namespace engine::tools
