// The header of one GGUF file: its metadata entries and tensor table, parsed and checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "gguf/file.h"
#include "gguf/name_index.h"
#include "gguf/reader.h"
#include "gguf/result.h"

namespace engine::gguf {

inline std::string_view name_of(const KeyValue& entry) noexcept { return entry.key; }
inline std::string_view name_of(const Tensor& tensor) noexcept { return tensor.name; }

// How messages name a tensor: tensor "blk.0.attn_q.weight".
std::string named(const Tensor& tensor);

struct Header {
  std::unique_ptr<std::byte[]> bytes;  // the file's first n_bytes; the views below point into it
  std::uint64_t n_bytes = 0;
  std::uint32_t version = 0;
  std::uint64_t alignment = 0;
  std::vector<KeyValue> entries;
  std::vector<Tensor> tensors;
  NameIndex<KeyValue> keys;

  const KeyValue* find(std::string_view key) const noexcept { return keys.find(entries, key); }
};

// Reads and checks everything about a file except what needs the other files of a split model.
Result<Header> read_header(const Source& source);

// Places every tensor of a parsed header in a file of `file_bytes` bytes: sets Tensor::n_bytes and
// makes Tensor::offset count from the start of the file. Errors: SHAPE, SIZE, UNSUPPORTED, OFFSET,
// ALIGN, OVERLAP. Part of read_header().
Status place_tensors(Header& header, std::uint64_t file_bytes);

// Bytes behind the last tensor and its padding, which nothing refers to.
std::uint64_t n_trailing_bytes(const Header& header, std::uint64_t file_bytes) noexcept;

// Bytes of one value of a fixed-size type, 0 for strings and arrays.
std::uint64_t value_bytes(ValueType type) noexcept;

}  // namespace engine::gguf
