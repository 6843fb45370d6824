#include "tests/support/gguf_builder.h"

#include <algorithm>
#include <cassert>

namespace engine::test {
namespace {

std::uint64_t padded(std::uint64_t size, std::uint64_t alignment) {
  return (size + alignment - 1) / alignment * alignment;
}

void append_entry(Bytes& bytes, const FileEntry& entry) {
  append_string(bytes, entry.key, entry.claimed_key_size);
  append(bytes, entry.type);
  append(bytes, entry.value.data(), entry.value.size());
}

void append_tensor(Bytes& bytes, const FileTensor& tensor, std::uint64_t offset) {
  append_string(bytes, tensor.name, tensor.claimed_name_size);
  append(bytes, tensor.claimed_n_dims.value_or(static_cast<std::uint32_t>(tensor.dims.size())));
  for (const std::uint64_t dim : tensor.dims) append(bytes, dim);
  append(bytes, tensor.type);
  append(bytes, tensor.offset.value_or(offset));
}

}  // namespace

void append(Bytes& bytes, const void* data, std::size_t n_bytes) {
  const auto* first = static_cast<const std::byte*>(data);
  bytes.insert(bytes.end(), first, first + n_bytes);
}

void append_string(Bytes& bytes, std::string_view text, std::optional<std::uint64_t> claimed_size) {
  append(bytes, claimed_size.value_or(text.size()));
  append(bytes, text.data(), text.size());
}

void GgufFile::set(std::string_view key, std::string_view text) {
  Bytes stored;
  append_string(stored, text);
  set_raw(key, gguf::ValueType::string, std::move(stored));
}

void GgufFile::set_strings(std::string_view key, const std::vector<std::string>& texts) {
  Bytes elements;
  for (const std::string& text : texts) append_string(elements, text);
  set_raw_array(key, gguf::ValueType::string, texts.size(), elements);
}

void GgufFile::set_raw(std::string_view key, gguf::ValueType type, Bytes value) {
  const auto found = std::find_if(entries.begin(), entries.end(),
                                  [&](const FileEntry& entry) { return entry.key == key; });
  FileEntry& entry = found != entries.end() ? *found : entries.emplace_back();
  entry = {std::string(key), static_cast<std::uint32_t>(type), std::move(value)};
}

void GgufFile::set_raw_array(std::string_view key, gguf::ValueType element_type,
                             std::uint64_t count, const Bytes& elements) {
  Bytes stored;
  append(stored, static_cast<std::uint32_t>(element_type));
  append(stored, count);
  append(stored, elements.data(), elements.size());
  set_raw(key, gguf::ValueType::array, std::move(stored));
}

void GgufFile::remove(std::string_view key) {
  std::erase_if(entries, [&](const FileEntry& entry) { return entry.key == key; });
}

void GgufFile::remove_tensor(std::string_view name) {
  std::erase_if(tensors, [&](const FileTensor& tensor) { return tensor.name == name; });
}

FileEntry& GgufFile::entry(std::string_view key) {
  const auto found = std::find_if(entries.begin(), entries.end(),
                                  [&](const FileEntry& entry) { return entry.key == key; });
  assert(found != entries.end());
  return *found;
}

FileTensor& GgufFile::tensor(std::string_view name) {
  const auto found = std::find_if(tensors.begin(), tensors.end(),
                                  [&](const FileTensor& tensor) { return tensor.name == name; });
  assert(found != tensors.end());
  return *found;
}

Bytes GgufFile::metadata() const {
  Bytes bytes;
  append(bytes, magic.data(), magic.size());
  append(bytes, version);
  append(bytes, claimed_n_tensors.value_or(tensors.size()));
  append(bytes, claimed_n_entries.value_or(entries.size()));
  for (const FileEntry& entry : entries) append_entry(bytes, entry);
  std::uint64_t offset = 0;
  for (const FileTensor& tensor : tensors) {
    append_tensor(bytes, tensor, offset);
    offset += padded(tensor.data.size(), alignment);
  }
  return bytes;
}

Bytes GgufFile::build() const {
  Bytes bytes = metadata();
  for (const FileTensor& tensor : tensors) {
    bytes.resize(padded(bytes.size(), alignment));
    append(bytes, tensor.data.data(), tensor.data.size());
  }
  if (pad_the_end) bytes.resize(padded(bytes.size(), alignment));
  append(bytes, tail.data(), tail.size());
  return bytes;
}

}  // namespace engine::test
