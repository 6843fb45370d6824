#include "tools/eval_request.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "tools/program.h"

namespace engine::tools {
namespace {

using Value = nlohmann::json;

constexpr int kMaxDepth = 4;  // an object of lists is 2

Status bad_field(const std::string& name, const std::string& expected) {
  return bad_input(name + ": expected " + expected);
}

struct TooDeep {};

// Thrown through the parser, which cannot be stopped otherwise: a line of brackets would take a
// hundred times its size.
bool check_depth(int depth, Value::parse_event_t, Value&) {
  if (depth > kMaxDepth) throw TooDeep();
  return true;
}

bool is_within(const Value& value, std::int64_t low, std::int64_t high) {
  if (value.is_number_unsigned() &&
      value.get<std::uint64_t>() >
          static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
    return false;
  return value.is_number_integer() && value.get<std::int64_t>() >= low &&
         value.get<std::int64_t>() <= high;
}

std::string whole_number_of(std::int64_t low, std::int64_t high) {
  return "a whole number of " + std::to_string(low) + ".." + std::to_string(high);
}

}  // namespace

Result<EvalRequest> EvalRequest::parse(std::string_view line) try {
  Value value = Value::parse(line.begin(), line.end(), check_depth);
  if (!value.is_object()) return bad_input("expected a JSON object");
  return EvalRequest(std::move(value));
} catch (const TooDeep&) {
  return bad_input("nested deeper than " + std::to_string(kMaxDepth) + " levels");
} catch (const Value::parse_error& error) {
  // Its own message quotes the text, which may be long and not printable.
  return bad_input("not JSON in UTF-8: error at byte " + std::to_string(error.byte));
} catch (const Value::exception&) {
  return bad_input("not JSON: a number is out of range");
}

Status EvalRequest::allow(std::initializer_list<std::string_view> names) const {
  for (const auto& field : fields_.items())
    if (std::find(names.begin(), names.end(), field.key()) == names.end())
      return bad_input("unknown field '" + field.key().substr(0, 100) + "'");
  return {};
}

Result<std::string> EvalRequest::text(const char* name) const {
  const auto field = fields_.find(name);
  if (field == fields_.end() || !field->is_string()) return bad_field(name, "a string");
  return field->get<std::string>();
}

Result<float> EvalRequest::number(const char* name, float fallback) const {
  const auto field = fields_.find(name);
  if (field == fields_.end()) return fallback;
  const float value =
      field->is_number() ? field->get<float>() : std::numeric_limits<float>::infinity();
  if (!std::isfinite(value)) return bad_field(name, "a number");
  return value;
}

Result<std::int64_t> EvalRequest::integer(const char* name, std::int64_t fallback, std::int64_t low,
                                          std::int64_t high) const {
  const auto field = fields_.find(name);
  if (field == fields_.end()) return fallback;
  if (!is_within(*field, low, high)) return bad_field(name, whole_number_of(low, high));
  return field->get<std::int64_t>();
}

Result<std::uint64_t> EvalRequest::seed(const char* name) const {
  const auto field = fields_.find(name);
  if (field == fields_.end()) return std::uint64_t{0};
  if (!field->is_number_unsigned()) return bad_field(name, "a whole number of 0..2^64-1");
  return field->get<std::uint64_t>();
}

Result<bool> EvalRequest::flag(const char* name) const {
  const auto field = fields_.find(name);
  if (field == fields_.end()) return false;
  if (!field->is_boolean()) return bad_field(name, "true or false");
  return field->get<bool>();
}

Result<std::vector<std::int32_t>> EvalRequest::indices(const char* name, std::int64_t end) const {
  const auto field = fields_.find(name);
  if (field == fields_.end() || !field->is_array())
    return bad_field(name, "a list of whole numbers");
  std::vector<std::int32_t> indices;
  for (const Value& value : *field) {
    if (!is_within(value, 0, end - 1))
      return bad_field(name + ("[" + std::to_string(indices.size()) + "]"),
                       whole_number_of(0, end - 1));
    indices.push_back(value.get<std::int32_t>());
  }
  return indices;
}

Result<std::vector<std::string>> EvalRequest::strings(const char* name) const {
  const auto field = fields_.find(name);
  std::vector<std::string> strings;
  if (field == fields_.end()) return strings;
  if (field->is_string()) return std::vector{field->get<std::string>()};
  if (!field->is_array()) return bad_field(name, "a string or a list of strings");
  for (const Value& value : *field) {
    if (!value.is_string()) return bad_field(name, "a string or a list of strings");
    strings.push_back(value.get<std::string>());
  }
  return strings;
}

}  // namespace engine::tools
