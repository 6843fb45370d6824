// Cases that store a key in every type but the right one.
#pragma once

#include <string>
#include <vector>

#include "gguf/reader.h"
#include "tests/hostile/hostile_case.h"

namespace engine::test {

// `right`: the scalar type that the key must have. Every other scalar and every array gives TYPE.
void append_wrong_types(std::vector<HostileCase>& cases, const std::string& key,
                        gguf::ValueType right);
// The scalars only.
void append_wrong_scalars(std::vector<HostileCase>& cases, const std::string& key,
                          gguf::ValueType right);
// Arrays of every type but `right`, empty and not.
void append_wrong_arrays(std::vector<HostileCase>& cases, const std::string& key,
                         gguf::ValueType right);
// For a key that must be an array of `right`: every scalar and every other array.
void append_not_array_of(std::vector<HostileCase>& cases, const std::string& key,
                         gguf::ValueType right);

}  // namespace engine::test
