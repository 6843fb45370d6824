#include "gguf/reader.h"

#include <string>
#include <type_traits>
#include <utility>

#include "gguf/cursor.h"
#include "gguf/file_error.h"
#include "gguf/no_throw.h"
#include "gguf/split.h"

namespace engine::gguf {
namespace {

template <class T>
constexpr ValueType stored_type() {
  if constexpr (std::is_same_v<T, std::uint8_t>) return ValueType::u8;
  if constexpr (std::is_same_v<T, std::int8_t>) return ValueType::i8;
  if constexpr (std::is_same_v<T, std::uint16_t>) return ValueType::u16;
  if constexpr (std::is_same_v<T, std::int16_t>) return ValueType::i16;
  if constexpr (std::is_same_v<T, std::uint32_t>) return ValueType::u32;
  if constexpr (std::is_same_v<T, std::int32_t>) return ValueType::i32;
  if constexpr (std::is_same_v<T, float>) return ValueType::f32;
  if constexpr (std::is_same_v<T, bool>) return ValueType::boolean;
  if constexpr (std::is_same_v<T, std::string_view>) return ValueType::string;
  if constexpr (std::is_same_v<T, std::uint64_t>) return ValueType::u64;
  if constexpr (std::is_same_v<T, std::int64_t>) return ValueType::i64;
  if constexpr (std::is_same_v<T, double>) return ValueType::f64;
}

template <class T>
T value_of(std::span<const std::byte> bytes) noexcept {
  if constexpr (std::is_same_v<T, std::string_view>)
    return as_text(bytes);
  else if constexpr (std::is_same_v<T, bool>)
    return bytes[0] != std::byte{0};
  else
    return load<T>(bytes.data());
}

std::string describe(ValueType type, bool is_array) {
  return (is_array ? "an array of " : "") + std::string(name(type));
}

Status missing_key(std::string_view key) {
  return file_error(Detail::missing, "metadata key \"" + printable(key) + "\" is missing");
}

Status check_stored_as(const KeyValue& entry, ValueType type, bool is_array) {
  if (entry.type == type && entry.is_array == is_array) return {};
  return file_error(Detail::type, "metadata key \"" + printable(entry.key) + "\" is stored as " +
                                      describe(entry.type, entry.is_array) + ", not as " +
                                      describe(type, is_array));
}

}  // namespace

struct Reader::Impl {
  std::vector<Shard> shards;
  std::vector<Tensor> tensors;  // of all shards
  NameIndex<Tensor> tensor_names;
  std::vector<std::string> warnings;

  const std::vector<KeyValue>& entries() const noexcept { return shards.front().header.entries; }

  static Result<Reader> build(std::vector<Shard> shards);
  void join_tensors();
  void warn_of_trailing_bytes();
  Status index_tensors();
};

void Reader::Impl::join_tensors() {
  if (shards.size() == 1) {  // the usual case needs no second table
    tensors = std::move(shards.front().header.tensors);
    return;
  }
  for (std::size_t i = 0; i < shards.size(); ++i)
    for (Tensor tensor : shards[i].header.tensors) {
      tensor.shard = static_cast<int>(i);
      tensors.push_back(tensor);
    }
}

void Reader::Impl::warn_of_trailing_bytes() {
  for (const Shard& shard : shards)
    if (const auto n = n_trailing_bytes(shard.header, shard.source->size()); n > 0)
      warnings.push_back((shard.name.empty() ? "" : printable(shard.name) + ": ") +
                         std::to_string(n) + " bytes after the last tensor are ignored");
}

Status Reader::Impl::index_tensors() {
  tensor_names = NameIndex<Tensor>(tensors);
  if (const Tensor* twice = tensor_names.find_duplicate(tensors))
    return file_error(Detail::dup, "tensor \"" + printable(twice->name) + "\" occurs twice");
  return {};
}

Result<Reader> Reader::Impl::build(std::vector<Shard> shards) {
  auto impl = std::make_unique<Impl>();
  impl->shards = std::move(shards);
  impl->warn_of_trailing_bytes();
  impl->join_tensors();
  if (Status status = impl->index_tensors(); !status.ok())
    return in_file(std::move(status), impl->shards.front().name);
  return Reader(std::move(impl));
}

Reader::Reader(std::unique_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}
Reader::Reader(Reader&&) noexcept = default;
Reader& Reader::operator=(Reader&&) noexcept = default;
Reader::~Reader() = default;

Result<Reader> Reader::open(const std::filesystem::path& path) {
  return no_throw([&]() -> Result<Reader> {
    ENGINE_ASSIGN(Shard shard, open_shard(path));
    std::vector<Shard> shards;
    const auto count = shard_count(shard);
    if (!count) return in_file(count.status(), shard.name);
    if (*count == 1) {
      shards.push_back(std::move(shard));
    } else {
      ENGINE_ASSIGN(shards, open_siblings(path, std::move(shard)));
    }
    return Impl::build(std::move(shards));
  });
}

Result<Reader> Reader::open(std::unique_ptr<const Source> source) {
  return no_throw([&]() -> Result<Reader> {
    ENGINE_ASSIGN(Shard shard, open_shard(std::move(source), {}));
    ENGINE_ASSIGN(const int count, shard_count(shard));
    if (count != 1)
      return file_error(Detail::missing, "this is one of " + std::to_string(count) +
                                             " files of a split model; open it by its path");
    std::vector<Shard> shards;
    shards.push_back(std::move(shard));
    return Impl::build(std::move(shards));
  });
}

Result<Reader> Reader::open(std::span<const std::byte> bytes) {
  return no_throw([&] { return open(memory_source(bytes)); });
}

std::uint32_t Reader::version() const noexcept { return impl_->shards.front().header.version; }

std::uint64_t Reader::alignment() const noexcept { return impl_->shards.front().header.alignment; }

std::uint64_t Reader::file_bytes() const noexcept {
  std::uint64_t sum = 0;
  for (const Shard& shard : impl_->shards) sum += shard.source->size();
  return sum;
}

std::span<const KeyValue> Reader::metadata() const noexcept { return impl_->entries(); }
std::span<const Tensor> Reader::tensors() const noexcept { return impl_->tensors; }
std::span<const std::string> Reader::warnings() const noexcept { return impl_->warnings; }

const KeyValue* Reader::find(std::string_view key) const noexcept {
  return impl_->shards.front().header.find(key);
}

const Tensor* Reader::find_tensor(std::string_view name) const noexcept {
  return impl_->tensor_names.find(impl_->tensors, name);
}

template <class T>
Result<T> Reader::get(std::string_view key) const {
  const KeyValue* entry = find(key);
  if (entry == nullptr) return missing_key(key);
  ENGINE_TRY(check_stored_as(*entry, stored_type<T>(), false));
  return value_of<T>(entry->bytes);
}

template <class T>
Result<T> Reader::get_or(std::string_view key, T fallback) const {
  return find(key) == nullptr ? Result<T>(fallback) : get<T>(key);
}

template <class T>
Result<std::vector<T>> Reader::get_array(std::string_view key) const {
  const KeyValue* entry = find(key);
  if (entry == nullptr) return missing_key(key);
  ENGINE_TRY(check_stored_as(*entry, stored_type<T>(), true));
  std::vector<T> values;
  values.reserve(entry->count);
  const std::size_t each = entry->count == 0 ? 0 : entry->bytes.size() / entry->count;
  for (std::size_t i = 0; i < entry->count; ++i)
    values.push_back(value_of<T>(entry->bytes.subspan(i * each, each)));
  return values;
}

#define ENGINE_GGUF_SCALAR(T)                                \
  template Result<T> Reader::get<T>(std::string_view) const; \
  template Result<T> Reader::get_or<T>(std::string_view, T) const;
#define ENGINE_GGUF_NUMBER(T) \
  ENGINE_GGUF_SCALAR(T)       \
  template Result<std::vector<T>> Reader::get_array<T>(std::string_view) const;
ENGINE_GGUF_NUMBER(std::uint8_t)
ENGINE_GGUF_NUMBER(std::int8_t)
ENGINE_GGUF_NUMBER(std::uint16_t)
ENGINE_GGUF_NUMBER(std::int16_t)
ENGINE_GGUF_NUMBER(std::uint32_t)
ENGINE_GGUF_NUMBER(std::int32_t)
ENGINE_GGUF_NUMBER(std::uint64_t)
ENGINE_GGUF_NUMBER(std::int64_t)
ENGINE_GGUF_NUMBER(float)
ENGINE_GGUF_NUMBER(double)
ENGINE_GGUF_NUMBER(bool)
ENGINE_GGUF_SCALAR(std::string_view)
#undef ENGINE_GGUF_NUMBER
#undef ENGINE_GGUF_SCALAR

Result<StringArray> Reader::get_strings(std::string_view key) const {
  const KeyValue* entry = find(key);
  if (entry == nullptr) return missing_key(key);
  ENGINE_TRY(check_stored_as(*entry, ValueType::string, true));
  const std::byte* first = entry->bytes.data();
  return StringArray(first, first + entry->bytes.size(), entry->count);
}

std::string_view StringArray::Iterator::operator*() const noexcept {
  return as_text({at_ + sizeof(std::uint64_t), load<std::uint64_t>(at_)});
}

StringArray::Iterator& StringArray::Iterator::operator++() noexcept {
  at_ += sizeof(std::uint64_t) + load<std::uint64_t>(at_);
  return *this;
}

Status Reader::read(const Tensor& tensor, std::uint64_t offset, std::span<std::byte> out) const {
  const bool inside = std::cmp_less(tensor.shard, impl_->shards.size()) &&
                      offset <= tensor.n_bytes && out.size() <= tensor.n_bytes - offset;
  if (!inside)
    return Status(Code::invalid_argument, "read of " + std::to_string(out.size()) + " bytes at " +
                                              std::to_string(offset) + " is outside tensor \"" +
                                              printable(tensor.name) + "\" of " +
                                              std::to_string(tensor.n_bytes) + " bytes");
  const Shard& shard = impl_->shards[static_cast<std::size_t>(tensor.shard)];
  return in_file(shard.source->read(tensor.offset + offset, out), shard.name);
}

}  // namespace engine::gguf
