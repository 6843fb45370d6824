#include "tools/request_shape.h"

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "gguf/reader.h"
#include "tools/program.h"

namespace engine::tools {
namespace {

using Value = nlohmann::json;

// Receives the parser's events; false ends the parsing.
class ShapeCheck final : public nlohmann::json_sax<Value> {
 public:
  const Status& status() const { return status_; }

  bool null() override { return scalar(); }
  bool boolean(bool) override { return scalar(); }
  bool number_integer(number_integer_t) override { return scalar(); }
  bool number_unsigned(number_unsigned_t) override { return scalar(); }
  bool number_float(number_float_t, const string_t&) override { return scalar(); }
  bool string(string_t&) override { return scalar(); }
  bool binary(binary_t&) override { return scalar(); }

  bool start_object(std::size_t) override {
    if (in_object_) return refuse(field() + ": a request holds no object in another");
    in_object_ = true;
    return true;
  }
  bool end_object() override { return true; }
  bool start_array(std::size_t) override {
    if (!in_object_) return refuse_other_value();
    if (++list_depth_ <= kMaxListDepth) return true;
    return refuse(field() + ": lists are nested deeper than " + std::to_string(kMaxListDepth));
  }
  bool end_array() override {
    --list_depth_;
    return true;
  }

  bool key(string_t& name) override {
    if (++n_fields_ > kMaxFields)
      return refuse("more than " + std::to_string(kMaxFields) + " fields");
    field_.swap(name);
    return true;
  }

  // The parser's own message quotes the text, which may be long and not printable.
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    constexpr int kNumberOutOfRange = 406;  // documented with the library's exceptions
    return refuse(error.id == kNumberOutOfRange
                      ? "not JSON: a number is out of range"
                      : "not JSON in UTF-8: error at byte " + std::to_string(position));
  }

 private:
  bool scalar() { return in_object_ || refuse_other_value(); }
  bool refuse_other_value() { return refuse("expected a JSON object"); }
  bool refuse(std::string message) {
    status_ = bad_input(std::move(message));
    return false;
  }
  std::string field() const { return gguf::printable(field_); }

  Status status_;
  std::string field_;
  int n_fields_ = 0;
  int list_depth_ = 0;
  bool in_object_ = false;
};

}  // namespace

Status check_request_shape(std::string_view line) {
  ShapeCheck check;
  Value::sax_parse(line.begin(), line.end(), &check);
  return check.status();
}

}  // namespace engine::tools
