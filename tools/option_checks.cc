#include "tools/option_checks.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdint>
#include <string>

namespace engine::tools {
namespace {

template <class T>
bool parse(const std::string& text, T& value) {
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && rest == end;
}

}  // namespace

CLI::Validator number_within(double low, double high, const std::string& range) {
  const auto check = [low, high, range](std::string& text) {
    double value = 0;
    const bool good = parse(text, value) && value >= low && value <= high;  // false for NaN
    return good ? std::string() : "'" + text + "' is not a number, " + range;
  };
  return CLI::Validator(check, range);
}

CLI::Validator whole_number() {
  const auto check = [](std::string& text) {
    std::uint64_t value = 0;
    return parse(text, value) ? std::string() : "'" + text + "' is not a whole number of 64 bits";
  };
  return CLI::Validator(check, "0 to 2^64-1");
}

}  // namespace engine::tools
