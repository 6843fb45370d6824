#include "tools/option_checks.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdint>
#include <string>

#include "gguf/reader.h"

namespace engine::tools {
namespace {

template <class T>
bool parse(const std::string& text, T& value) {
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && rest == end;
}

// CLI11 puts the option's name in front.
std::string expected(const std::string& what, const std::string& got) {
  return "expected " + what + ", got " + (got.empty() ? "nothing" : gguf::printable(got));
}

}  // namespace

CLI::Validator number_within(NumberRange range) {
  const auto check = [range](std::string& text) {
    double value = 0;
    const bool good = parse(text, value) && range.contains(value);
    return good ? std::string() : expected("a number from " + range.text(), text);
  };
  return CLI::Validator(check, range.text());
}

template <class T>
CLI::Validator whole_number(T low, T high) {
  const std::string range =
      "a whole number from " + std::to_string(low) + " to " + std::to_string(high);
  const auto check = [low, high, range](std::string& text) {
    T value = 0;
    return parse(text, value) && value >= low && value <= high ? std::string()
                                                               : expected(range, text);
  };
  const bool has_limit = high < std::numeric_limits<T>::max();
  return CLI::Validator(
      check, std::to_string(low) + (has_limit ? " to " + std::to_string(high) : " or more"));
}
template CLI::Validator whole_number(int, int);
template CLI::Validator whole_number(std::uint64_t, std::uint64_t);

}  // namespace engine::tools
