#include "tools/eval_request.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "tools/program.h"
#include "tools/request_shape.h"

namespace engine::tools {
namespace {

using Value = nlohmann::json;

Status bad_field(const std::string& name, const std::string& expected) {
  return bad_input(name + ": expected " + expected);
}

Status bad_number(const std::string& name, const std::string& expected, const Value& got) {
  return bad_field(name, expected + ", got " + (got.is_number() ? got.dump() : got.type_name()));
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
  return "a whole number from " + std::to_string(low) + " to " + std::to_string(high);
}

}  // namespace

Result<EvalRequest> EvalRequest::parse(std::string_view line) {
  ENGINE_TRY(check_request_shape(line));
  return EvalRequest(Value::parse(line.begin(), line.end()));
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

Result<float> EvalRequest::number(const char* name, float fallback, NumberRange range) const {
  const auto field = fields_.find(name);
  if (field == fields_.end()) return fallback;
  if (!field->is_number() || !range.contains(field->get<double>()))
    return bad_number(name, "a number from " + range.text(), *field);
  return field->get<float>();
}

Result<std::int64_t> EvalRequest::integer(const char* name, std::int64_t fallback, std::int64_t low,
                                          std::int64_t high) const {
  const auto field = fields_.find(name);
  if (field == fields_.end()) return fallback;
  if (!is_within(*field, low, high)) return bad_number(name, whole_number_of(low, high), *field);
  return field->get<std::int64_t>();
}

Result<std::uint64_t> EvalRequest::seed(const char* name) const {
  const auto field = fields_.find(name);
  if (field == fields_.end()) return std::uint64_t{0};
  if (!field->is_number_unsigned())
    return bad_number(name, "a whole number from 0 to 18446744073709551615", *field);
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
      return bad_number(name + ("[" + std::to_string(indices.size()) + "]"),
                        whole_number_of(0, end - 1), value);
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
