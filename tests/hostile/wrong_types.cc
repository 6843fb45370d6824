#include "tests/hostile/wrong_types.h"

#include <algorithm>
#include <utility>

namespace engine::test {
namespace {

using gguf::ValueType;

constexpr ValueType kScalarTypes[] = {ValueType::u8,  ValueType::i8,      ValueType::u16,
                                      ValueType::i16, ValueType::u32,     ValueType::i32,
                                      ValueType::f32, ValueType::boolean, ValueType::string,
                                      ValueType::u64, ValueType::i64,     ValueType::f64};

// One value of a type: zeros, which are valid in all of them (the empty string among them).
Bytes zero(ValueType type) {
  switch (type) {
    case ValueType::u8:
    case ValueType::i8:
    case ValueType::boolean:
      return Bytes(1);
    case ValueType::u16:
    case ValueType::i16:
      return Bytes(2);
    case ValueType::u32:
    case ValueType::i32:
    case ValueType::f32:
      return Bytes(4);
    default:
      return Bytes(8);
  }
}

void append_case(std::vector<HostileCase>& cases, const std::string& key, const std::string& form,
                 Mutation mutate) {
  std::string id = "G40_" + key + "_as_" + form;
  std::replace_if(
      id.begin(), id.end(), [](char c) { return c == '.'; }, '_');
  cases.push_back(mutated(std::move(id), std::move(mutate), {Detail::type}, key));
}

void append_scalar(std::vector<HostileCase>& cases, const std::string& key, ValueType type) {
  append_case(cases, key, std::string(name(type)),
              [=](GgufFile& f) { f.set_raw(key, type, zero(type)); });
}

void append_array(std::vector<HostileCase>& cases, const std::string& key, ValueType type) {
  append_case(cases, key, "array_of_" + std::string(name(type)),
              [=](GgufFile& f) { f.set_raw_array(key, type, 1, zero(type)); });
  append_case(cases, key, "empty_array_of_" + std::string(name(type)),
              [=](GgufFile& f) { f.set_raw_array(key, type, 0, {}); });
}

}  // namespace

void append_wrong_scalars(std::vector<HostileCase>& cases, const std::string& key,
                          ValueType right) {
  for (const ValueType type : kScalarTypes)
    if (type != right) append_scalar(cases, key, type);
}

void append_wrong_arrays(std::vector<HostileCase>& cases, const std::string& key, ValueType right) {
  for (const ValueType type : kScalarTypes)
    if (type != right) append_array(cases, key, type);
}

void append_wrong_types(std::vector<HostileCase>& cases, const std::string& key, ValueType right) {
  append_wrong_scalars(cases, key, right);
  append_wrong_arrays(cases, key, right);
  append_array(cases, key, right);
}

void append_not_array_of(std::vector<HostileCase>& cases, const std::string& key, ValueType right) {
  append_wrong_scalars(cases, key, right);
  append_scalar(cases, key, right);
  append_wrong_arrays(cases, key, right);
}

}  // namespace engine::test
