// Writes GGUF files in memory, valid ones and, field by field, invalid ones. Every number that the
// format stores can be overridden without disturbing its neighbours.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "gguf/reader.h"
#include "gguf/types.h"

namespace engine::test {

using Bytes = std::vector<std::byte>;

void append(Bytes& bytes, const void* data, std::size_t n_bytes);
template <class T>
void append(Bytes& bytes, T value) {
  static_assert(std::is_arithmetic_v<T>);
  append(bytes, &value, sizeof value);
}
// A string as GGUF stores it; `claimed_size` replaces its true size.
void append_string(Bytes& bytes, std::string_view text,
                   std::optional<std::uint64_t> claimed_size = {});

// The type id of a C++ type's values.
template <class T>
constexpr gguf::ValueType value_type_of() {
  using gguf::ValueType;
  if constexpr (std::is_same_v<T, bool>) return ValueType::boolean;
  if constexpr (std::is_same_v<T, std::uint8_t>) return ValueType::u8;
  if constexpr (std::is_same_v<T, std::int8_t>) return ValueType::i8;
  if constexpr (std::is_same_v<T, std::uint16_t>) return ValueType::u16;
  if constexpr (std::is_same_v<T, std::int16_t>) return ValueType::i16;
  if constexpr (std::is_same_v<T, std::uint32_t>) return ValueType::u32;
  if constexpr (std::is_same_v<T, std::int32_t>) return ValueType::i32;
  if constexpr (std::is_same_v<T, std::uint64_t>) return ValueType::u64;
  if constexpr (std::is_same_v<T, std::int64_t>) return ValueType::i64;
  if constexpr (std::is_same_v<T, float>) return ValueType::f32;
  if constexpr (std::is_same_v<T, double>) return ValueType::f64;
}

struct FileEntry {
  std::string key;
  std::uint32_t type = 0;  // any number, valid or not
  Bytes value;             // as stored: arrays with their element type and count
  std::optional<std::uint64_t> claimed_key_size = {};
};

struct FileTensor {
  std::string name;
  std::vector<std::uint64_t> dims;
  std::uint32_t type = 0;
  Bytes data;
  // Behind the data's start; by default one after the other.
  std::optional<std::uint64_t> offset = {};
  std::optional<std::uint32_t> claimed_n_dims = {};
  std::optional<std::uint64_t> claimed_name_size = {};
};

struct GgufFile {
  std::string magic = "GGUF";
  std::uint32_t version = 3;
  std::uint64_t alignment = 32;  // of the layout; general.alignment is an entry like any other
  std::vector<FileEntry> entries;
  std::vector<FileTensor> tensors;
  std::optional<std::uint64_t> claimed_n_entries, claimed_n_tensors;
  bool pad_the_end = true;  // to the alignment, as most writers do
  Bytes tail;               // after everything else

  // Sets a key to a value of exactly that type, in its place or at the end.
  template <class T>
  requires std::is_arithmetic_v<T>
  void set(std::string_view key, T value) {
    Bytes stored;
    append(stored, value);
    set_raw(key, value_type_of<T>(), std::move(stored));
  }
  void set(std::string_view key, std::string_view text);
  template <class T>
  void set_array(std::string_view key, const std::vector<T>& values) {
    Bytes elements;
    for (const T value : values) append(elements, value);
    set_raw_array(key, value_type_of<T>(), values.size(), elements);
  }
  void set_strings(std::string_view key, const std::vector<std::string>& texts);
  void set_raw(std::string_view key, gguf::ValueType type, Bytes value);
  void set_raw_array(std::string_view key, gguf::ValueType element_type, std::uint64_t count,
                     const Bytes& elements);
  void remove(std::string_view key);
  void remove_tensor(std::string_view name);

  // Preconditions of the two: it exists.
  FileEntry& entry(std::string_view key);
  FileTensor& tensor(std::string_view name);

  Bytes metadata() const;  // everything before the padding in front of the data
  Bytes build() const;     // the whole file
};

}  // namespace engine::test
