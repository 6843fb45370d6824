// GGUF files, read as hostile input: every count, length and offset is checked before it is used,
// and nothing is kept of a file that breaks a rule. Versions 2 and 3, little-endian, whole or
// split.
//
//   ENGINE_ASSIGN(gguf::Reader file, gguf::Reader::open("model.gguf"));
//   ENGINE_ASSIGN(std::uint32_t n_layers, file.get<std::uint32_t>("gemma3.block_count"));
//   const gguf::Tensor* norm = file.find_tensor("output_norm.weight");
//   ENGINE_TRY(file.read(*norm, 0, bytes));
//
// Layout of a file: magic "GGUF", u32 version, u64 n_tensors, u64 n_kv; n_kv times {string key, u32
// value type, value}; n_tensors times {string name, u32 n_dims, u64 dims[n_dims], u32 type, u64
// offset}; padding to general.alignment (default 32); tensor data. A string is u64 length + bytes;
// an array is u32 element type, u64 count, elements.
//
// Memory: the metadata is copied to the heap once and only the copy is interpreted, so a file that
// changes underneath cannot pass a check and then differ. Heap use is at most 4 x metadata + 8 MiB.
// Thread rule: const members may be called from any thread at once.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gguf/result.h"
#include "gguf/types.h"

namespace engine::gguf {

// Limits on what a file may claim; above them the error is LIMIT.
inline constexpr std::uint64_t kMaxEntries = 65'536;  // metadata entries, and tensors
inline constexpr std::uint64_t kMaxKeyBytes = 65'535;
inline constexpr std::uint64_t kMaxStringBytes = 1u << 20;
inline constexpr std::uint64_t kMaxTensorNameBytes = 64;
inline constexpr std::uint64_t kMaxMetadataBytes = 256u << 20;  // everything before the tensor data
inline constexpr std::uint64_t kMinAlignment = 8, kMaxAlignment = 65'536;

// Metadata value types, ids as stored.
enum class ValueType : std::uint32_t {
  u8 = 0,
  i8 = 1,
  u16 = 2,
  i16 = 3,
  u32 = 4,
  i32 = 5,
  f32 = 6,
  boolean = 7,
  string = 8,
  array = 9,
  u64 = 10,
  i64 = 11,
  f64 = 12,
};
std::string_view name(ValueType type) noexcept;

// An array of strings inside the reader's metadata: iterate it in order; there is no random access.
class StringArray {
 public:
  class Iterator {
   public:
    using value_type = std::string_view;
    using difference_type = std::ptrdiff_t;
    explicit Iterator(const std::byte* at) : at_(at) {}
    std::string_view operator*() const noexcept;
    Iterator& operator++() noexcept;
    Iterator operator++(int) noexcept {
      Iterator old = *this;
      ++*this;
      return old;
    }
    bool operator==(const Iterator&) const = default;

   private:
    const std::byte* at_;
  };

  StringArray(const std::byte* first, const std::byte* last, std::size_t size)
      : first_(first), last_(last), size_(size) {}
  std::size_t size() const noexcept { return size_; }
  Iterator begin() const noexcept { return Iterator(first_); }
  Iterator end() const noexcept { return Iterator(last_); }

 private:
  const std::byte* first_;
  const std::byte* last_;
  std::size_t size_;
};

// One metadata entry. Its bytes live in the reader.
struct KeyValue {
  std::string_view key;  // valid UTF-8 without control characters
  ValueType type;        // of the value, or of the elements if is_array
  bool is_array;
  std::uint64_t count;               // elements; 1 unless is_array
  std::span<const std::byte> bytes;  // a string's text, a number, or an array's elements as stored
};

struct Tensor {
  std::string_view name;  // 1..64 bytes of UTF-8, no control characters, no slashes
  Type type;
  int n_dims;                         // 1..4
  std::array<std::uint64_t, 4> dims;  // dims[0] is the row length; unused ones are 1
  std::uint64_t offset;               // of the data, from the start of its file
  std::uint64_t n_bytes;
  int shard;  // which file of a split model, 0-based

  std::uint64_t row_elements() const noexcept { return dims[0]; }
  std::uint64_t n_rows() const noexcept { return dims[1] * dims[2] * dims[3]; }
};

// Any bytes of a file as text for a terminal, a log or a message: control characters and bytes that
// are not UTF-8 become \xNN, and what exceeds max_bytes is cut off and marked by "...".
std::string printable(std::string_view text, std::size_t max_bytes = 96);

class Source;  // where bytes come from: a file or the caller's memory (gguf/file.h)

class Reader {
 public:
  // Opens a file; if it is one shard of a split model, all its siblings too. Errors: IO for
  // anything that is not a readable regular file; otherwise the Detail of the rule that the file
  // breaks, with the file's name. The files stay open until the reader is destroyed.
  static Result<Reader> open(const std::filesystem::path& path);
  // The same over the caller's bytes, which must outlive the reader. A split file is an error
  // (MISSING).
  static Result<Reader> open(std::span<const std::byte> bytes);
  // The same over any other source.
  static Result<Reader> open(std::unique_ptr<const Source> source);

  Reader(Reader&&) noexcept;
  Reader& operator=(Reader&&) noexcept;
  ~Reader();

  std::uint32_t version() const noexcept;
  std::uint64_t alignment() const noexcept;
  std::uint64_t file_bytes() const noexcept;            // all shards
  std::span<const KeyValue> metadata() const noexcept;  // of the first shard, in file order
  std::span<const Tensor> tensors() const noexcept;     // of all shards, in file order
  // Things worth telling the user that are no errors, e.g. bytes after the last tensor.
  std::span<const std::string> warnings() const noexcept;

  const KeyValue* find(std::string_view key) const noexcept;
  const Tensor* find_tensor(std::string_view name) const noexcept;

  // The value of `key` when it is stored as exactly T: std::uint8_t … std::int64_t, float, double,
  // bool, std::string_view (alive as long as the reader). MISSING if absent, TYPE if of another
  // type or array.
  template <class T>
  Result<T> get(std::string_view key) const;
  // As get(), but `fallback` when the key is absent. A wrong type stays an error.
  template <class T>
  Result<T> get_or(std::string_view key, T fallback) const;
  // The elements of a numeric or bool array, copied. An empty array is allowed.
  template <class T>
  Result<std::vector<T>> get_array(std::string_view key) const;
  // The elements of a string array, alive as long as the reader.
  Result<StringArray> get_strings(std::string_view key) const;

  // Reads out.size() bytes of a tensor's data starting `offset` bytes into it.
  // Errors: IO when the file has shrunk or cannot be read; invalid_argument outside the tensor.
  Status read(const Tensor& tensor, std::uint64_t offset, std::span<std::byte> out) const;

 private:
  struct Impl;
  explicit Reader(std::unique_ptr<Impl> impl) noexcept;
  std::unique_ptr<Impl> impl_;
};

}  // namespace engine::gguf
