// A request to gemma-eval: one line of JSON, and checked access to its fields.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "tools/number_range.h"

namespace engine::tools {

// All errors are invalid_argument, with a message that names the field. Absent fields get
// `fallback`.
class EvalRequest {
 public:
  // Error for anything but one JSON object in UTF-8 that passes check_request_shape().
  static Result<EvalRequest> parse(std::string_view line);

  // Error if there is a field whose name is not among `names`.
  Status allow(std::initializer_list<std::string_view> names) const;
  bool has(const char* name) const { return fields_.contains(name); }

  Result<std::string> text(const char* name) const;  // must be there
  Result<float> number(const char* name, float fallback, NumberRange range) const;
  Result<std::int64_t> integer(const char* name, std::int64_t fallback, std::int64_t low,
                               std::int64_t high) const;
  Result<std::uint64_t> seed(const char* name) const;  // 0 if absent
  Result<bool> flag(const char* name) const;           // false if absent
  // A list of whole numbers of 0..end-1; must be there.
  Result<std::vector<std::int32_t>> indices(const char* name, std::int64_t end) const;
  // A string or a list of strings; empty if absent.
  Result<std::vector<std::string>> strings(const char* name) const;

 private:
  using Value = nlohmann::json;

  explicit EvalRequest(Value fields) : fields_(std::move(fields)) {}

  Value fields_;  // an object
};

}  // namespace engine::tools
