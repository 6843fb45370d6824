#include "gguf/header.h"

#include <algorithm>
#include <bit>
#include <new>
#include <span>
#include <string>
#include <utility>

#include "gguf/cursor.h"
#include "gguf/file_error.h"
#include "gguf/look_alike.h"
#include "gguf/utf8.h"

namespace engine::gguf {
namespace {

constexpr std::uint64_t kFirstRead = 64 << 10;
constexpr std::uint64_t kMinEntryBytes = 8 + 1 + 4 + 1;           // key, type, a one-byte value
constexpr std::uint64_t kMinTensorBytes = 8 + 1 + 4 + 8 + 4 + 8;  // name, n_dims, dim, type, offset
constexpr std::uint64_t kMaxFileBytes = 0x7FFF'FFFF'FFFF'FFFF;    // largest file offset there is

std::string at(std::uint64_t position) { return " at byte " + std::to_string(position); }

Status truncated(const Cursor& cursor, std::string_view what) {
  const std::uint64_t file_bytes = cursor.position() + cursor.remaining();
  return file_error(Detail::trunc,
                    "the file ends" + at(file_bytes) + ", inside " + std::string(what));
}

// A length that no file can have is a LIMIT error, one beyond the end of this file TRUNC, and one
// that fits but is above our own limit LIMIT again.
Status check_length(Cursor& cursor, std::uint64_t n_bytes, std::uint64_t limit,
                    std::string_view what) {
  const bool impossible = n_bytes > kMaxFileBytes;
  if (!impossible && n_bytes > cursor.remaining())
    return file_error(Detail::trunc, std::string(what) + at(cursor.position()) +
                                         " is said to take " + std::to_string(n_bytes) +
                                         " bytes, but the file has only " +
                                         std::to_string(cursor.remaining()) + " more");
  if (impossible || n_bytes > limit)
    return file_error(Detail::limit, std::string(what) + at(cursor.position()) +
                                         " is said to take " + std::to_string(n_bytes) +
                                         " bytes, more than the limit of " + std::to_string(limit));
  return {};
}

Status take_text(Cursor& cursor, std::uint64_t limit, std::string_view what,
                 std::string_view& text) {
  std::uint64_t n_bytes = 0;
  if (!cursor.take(n_bytes)) return truncated(cursor, what);
  ENGINE_TRY(check_length(cursor, n_bytes, limit, what));
  std::span<const std::byte> bytes;
  if (!cursor.take(n_bytes, bytes)) return truncated(cursor, what);
  text = as_text(bytes);
  return {};
}

Status take_name(Cursor& cursor, std::uint64_t limit, std::string_view what,
                 std::string_view& text) {
  const std::uint64_t start = cursor.position();
  ENGINE_TRY(take_text(cursor, limit, what, text));
  if (text.empty()) return file_error(Detail::key, "empty " + std::string(what) + at(start));
  if (!is_plain_text(text))
    return file_error(Detail::key, std::string(what) + at(start) +
                                       " has control characters or is not UTF-8: \"" +
                                       printable(text) + "\"");
  return {};
}

Status check_magic(Cursor& cursor) {
  constexpr std::string_view kMagic = "GGUF";
  const std::string_view start = as_text(cursor.prefix());
  if (start.size() < kMagic.size() && kMagic.starts_with(start))
    return truncated(cursor, "the magic number");
  if (start.starts_with(kMagic)) return {};
  const std::string_view phrase = looks_like(start.substr(0, 512));
  return file_error(Detail::magic, "not a GGUF file" +
                                       (phrase.empty() ? ": it starts with \"" +
                                                             printable(start.substr(0, 4)) + "\""
                                                       : ": it looks like " + std::string(phrase)));
}

Status check_version(std::uint32_t version) {
  if (version == 2 || version == 3) return {};
  if (version != 0 && (version & 0xFFFF) == 0)
    return file_error(Detail::endian, "a big-endian GGUF file, which is not supported");
  return file_error(Detail::version, "GGUF version " + std::to_string(version) +
                                         " is not supported; versions 2 and 3 are");
}

// Decided before anything is allocated for the entries.
Status check_count(const Cursor& cursor, std::uint64_t count, std::uint64_t min_bytes_each,
                   std::string_view what) {
  if (count > kMaxEntries)
    return file_error(Detail::limit, "the file claims " + std::to_string(count) + " " +
                                         std::string(what) + ", more than the limit of " +
                                         std::to_string(kMaxEntries));
  if (count > cursor.remaining() / min_bytes_each)
    return file_error(Detail::trunc, "the file claims " + std::to_string(count) + " " +
                                         std::string(what) + ", which its " +
                                         std::to_string(cursor.remaining()) +
                                         " further bytes cannot hold");
  return {};
}

Status take_type(Cursor& cursor, std::string_view key, ValueType& type) {
  std::uint32_t id = 0;
  if (!cursor.take(id)) return truncated(cursor, "a value type");
  if (id > static_cast<std::uint32_t>(ValueType::f64))
    return file_error(Detail::type, "metadata key \"" + printable(key) + "\": unknown value type " +
                                        std::to_string(id));
  type = static_cast<ValueType>(id);
  return {};
}

Status check_bools(const KeyValue& entry) {
  for (const std::byte b : entry.bytes)
    if (b > std::byte{1})
      return file_error(Detail::value,
                        "metadata key \"" + printable(entry.key) + "\": a bool is stored as " +
                            std::to_string(std::to_integer<int>(b)) + ", not as 0 or 1");
  return {};
}

Status take_string_elements(Cursor& cursor, KeyValue& entry) {
  const std::uint64_t start = cursor.position();
  if (!cursor.has(entry.count * sizeof(std::uint64_t))) return truncated(cursor, "a string array");
  for (std::uint64_t i = 0; i < entry.count; ++i) {
    std::string_view text;
    ENGINE_TRY(take_text(cursor, kMaxStringBytes, "a string", text));
  }
  entry.bytes = cursor.prefix().subspan(start, cursor.position() - start);
  return {};
}

Status take_array(Cursor& cursor, KeyValue& entry) {
  ENGINE_TRY(take_type(cursor, entry.key, entry.type));
  if (entry.type == ValueType::array)
    return file_error(Detail::type,
                      "metadata key \"" + printable(entry.key) + "\" is an array of arrays");
  entry.is_array = true;
  if (!cursor.take(entry.count)) return truncated(cursor, "an array");

  const bool strings = entry.type == ValueType::string;
  const std::uint64_t each = strings ? sizeof(std::uint64_t) : value_bytes(entry.type);
  const std::uint64_t min_bytes =
      entry.count > kMaxFileBytes / each ? ~std::uint64_t{0} : entry.count * each;
  ENGINE_TRY(check_length(cursor, min_bytes, kMaxMetadataBytes, "an array"));
  if (strings) return take_string_elements(cursor, entry);
  if (!cursor.take(min_bytes, entry.bytes)) return truncated(cursor, "an array");
  return entry.type == ValueType::boolean ? check_bools(entry) : Status{};
}

Status take_value(Cursor& cursor, KeyValue& entry) {
  ENGINE_TRY(take_type(cursor, entry.key, entry.type));
  if (entry.type == ValueType::array) return take_array(cursor, entry);
  entry.is_array = false;
  entry.count = 1;
  if (entry.type == ValueType::string) {
    std::string_view text;
    ENGINE_TRY(take_text(cursor, kMaxStringBytes, "a string", text));
    entry.bytes = std::as_bytes(std::span(text));
    return {};
  }
  if (!cursor.take(value_bytes(entry.type), entry.bytes)) return truncated(cursor, "a value");
  return entry.type == ValueType::boolean ? check_bools(entry) : Status{};
}

Status take_entry(Cursor& cursor, KeyValue& entry) {
  ENGINE_TRY(take_name(cursor, kMaxKeyBytes, "metadata key", entry.key));
  return take_value(cursor, entry);
}

Status take_dims(Cursor& cursor, Tensor& tensor) {
  std::uint32_t n_dims = 0;
  if (!cursor.take(n_dims)) return truncated(cursor, "a tensor's dimensions");
  if (n_dims < 1 || n_dims > tensor.dims.size())
    return file_error(Detail::shape,
                      named(tensor) + " has " + std::to_string(n_dims) + " dimensions, not 1 to 4");
  tensor.n_dims = static_cast<int>(n_dims);
  tensor.dims.fill(1);
  for (std::uint32_t i = 0; i < n_dims; ++i) {
    if (!cursor.take(tensor.dims[i])) return truncated(cursor, "a tensor's dimensions");
    if (tensor.dims[i] < 1 || tensor.dims[i] > kMaxFileBytes)
      return file_error(Detail::shape, named(tensor) + ": dimension " + std::to_string(i) + " is " +
                                           std::to_string(tensor.dims[i]));
  }
  return {};
}

Status take_tensor(Cursor& cursor, Tensor& tensor) {
  ENGINE_TRY(take_name(cursor, kMaxTensorNameBytes, "tensor name", tensor.name));
  // A name may become part of a path in a program that exports tensors.
  if (tensor.name.find_first_of("/\\") != std::string_view::npos)
    return file_error(Detail::key, named(tensor) + ": its name contains a path separator");
  ENGINE_TRY(take_dims(cursor, tensor));
  std::uint32_t type_id = 0;
  if (!cursor.take(type_id) || !cursor.take(tensor.offset))
    return truncated(cursor, "a tensor entry");
  const TypeTraits* traits_of_type = find_traits(type_id);
  if (traits_of_type == nullptr)
    return file_error(Detail::type,
                      named(tensor) + " has the unknown tensor type " + std::to_string(type_id));
  tensor.type = traits_of_type->type;
  return {};
}

// Everything from the magic to the last tensor entry.
Status parse(Cursor& cursor, Header& header) {
  ENGINE_TRY(check_magic(cursor));
  std::uint32_t magic = 0;
  if (!cursor.take(magic) || !cursor.take(header.version)) return truncated(cursor, "the header");
  ENGINE_TRY(check_version(header.version));
  std::uint64_t n_tensors = 0, n_entries = 0;
  if (!cursor.take(n_tensors) || !cursor.take(n_entries)) return truncated(cursor, "the header");
  ENGINE_TRY(check_count(cursor, n_entries, kMinEntryBytes, "metadata entries"));
  ENGINE_TRY(check_count(cursor, n_tensors, kMinTensorBytes, "tensors"));

  header.entries.resize(n_entries);
  for (KeyValue& entry : header.entries) ENGINE_TRY(take_entry(cursor, entry));
  header.tensors.resize(n_tensors);
  for (Tensor& tensor : header.tensors) ENGINE_TRY(take_tensor(cursor, tensor));
  header.n_bytes = cursor.position();
  return {};
}

Result<std::unique_ptr<std::byte[]>> allocate(std::uint64_t n_bytes) {
  std::unique_ptr<std::byte[]> bytes(new (std::nothrow) std::byte[n_bytes]);
  if (!bytes)
    return Status(Code::out_of_memory,
                  "no memory for " + std::to_string(n_bytes) + " bytes of metadata");
  return bytes;
}

Result<std::unique_ptr<std::byte[]>> read_prefix(const Source& source, std::uint64_t n_bytes) {
  if (n_bytes > kMaxMetadataBytes)
    return file_error(Detail::limit, "the metadata takes more than " +
                                         std::to_string(kMaxMetadataBytes) + " bytes");
  ENGINE_ASSIGN(std::unique_ptr<std::byte[]> bytes, allocate(n_bytes));
  ENGINE_TRY(source.read(0, {bytes.get(), n_bytes}));
  return bytes;
}

// Keeps the metadata's bytes and drops what was read beyond them: the views are made afresh.
Status keep(std::unique_ptr<std::byte[]> bytes, std::uint64_t file_bytes, Header& header) {
  ENGINE_ASSIGN(header.bytes, allocate(header.n_bytes));
  std::copy_n(bytes.get(), header.n_bytes, header.bytes.get());
  Cursor cursor({header.bytes.get(), header.n_bytes}, file_bytes);
  return parse(cursor, header);
}

// Parses ever longer prefixes until one holds the whole metadata, so that no more is allocated than
// the file's own bytes have asked for.
Status parse_file(const Source& source, Header& header) {
  std::uint64_t n_bytes = std::min(source.size(), kFirstRead);
  for (;;) {
    ENGINE_ASSIGN(auto bytes, read_prefix(source, n_bytes));
    Cursor cursor({bytes.get(), n_bytes}, source.size());
    const Status status = parse(cursor, header);
    if (status.ok()) return keep(std::move(bytes), source.size(), header);
    if (!cursor.needs_more()) return status;
    n_bytes = std::min(source.size(), std::max(2 * n_bytes, cursor.wanted_bytes()));
  }
}

Status index_keys(Header& header) {
  header.keys = NameIndex<KeyValue>(header.entries);
  if (const KeyValue* twice = header.keys.find_duplicate(header.entries))
    return file_error(Detail::dup, "metadata key \"" + printable(twice->key) + "\" occurs twice");
  return {};
}

// Before the tensors are placed: one listed twice would be said to overlap itself.
Status check_tensor_names(const Header& header) {
  const NameIndex<Tensor> names(header.tensors);
  if (const Tensor* twice = names.find_duplicate(header.tensors))
    return file_error(Detail::dup, named(*twice) + " occurs twice");
  return {};
}

Status read_alignment(Header& header) {
  constexpr std::string_view kKey = "general.alignment";
  header.alignment = 32;
  const KeyValue* entry = header.find(kKey);
  if (entry == nullptr) return {};
  if (entry->is_array || entry->type != ValueType::u32)
    return file_error(Detail::type, "metadata key \"" + std::string(kKey) + "\" is not a u32");
  header.alignment = load<std::uint32_t>(entry->bytes.data());
  if (!std::has_single_bit(header.alignment) || header.alignment < kMinAlignment ||
      header.alignment > kMaxAlignment)
    return file_error(Detail::align, "general.alignment is " + std::to_string(header.alignment) +
                                         ", not a power of two from 8 to 65536");
  return {};
}

}  // namespace

std::string named(const Tensor& tensor) { return "tensor \"" + printable(tensor.name) + "\""; }

std::uint64_t value_bytes(ValueType type) noexcept {
  switch (type) {
    case ValueType::u8:
    case ValueType::i8:
    case ValueType::boolean:
      return 1;
    case ValueType::u16:
    case ValueType::i16:
      return 2;
    case ValueType::u32:
    case ValueType::i32:
    case ValueType::f32:
      return 4;
    case ValueType::u64:
    case ValueType::i64:
    case ValueType::f64:
      return 8;
    case ValueType::string:
    case ValueType::array:
      break;
  }
  return 0;
}

Result<Header> read_header(const Source& source) {
  Header header;
  ENGINE_TRY(parse_file(source, header));
  ENGINE_TRY(index_keys(header));
  ENGINE_TRY(read_alignment(header));
  ENGINE_TRY(check_tensor_names(header));
  ENGINE_TRY(place_tensors(header, source.size()));
  return header;
}

}  // namespace engine::gguf
