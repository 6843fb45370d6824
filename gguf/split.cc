#include "gguf/split.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "gguf/cursor.h"
#include "gguf/file_error.h"

namespace engine::gguf {
namespace {

constexpr int kMaxShards = 1000;  // each keeps a file open
constexpr std::size_t kDigits = 5;

// The value of an integer key that must be stored as exactly T; nothing if it is absent.
template <class T>
Result<std::optional<int>> get_int(const Header& header, std::string_view key, ValueType type) {
  const KeyValue* entry = header.find(key);
  if (entry == nullptr) return {std::optional<int>()};
  if (entry->is_array || entry->type != type)
    return file_error(Detail::type,
                      "metadata key \"" + std::string(key) + "\" is stored as " +
                          (entry->is_array ? "an array" : std::string(name(entry->type))) +
                          ", not as " + std::string(name(type)));
  return {std::optional<int>(load<T>(entry->bytes.data()))};
}

std::string shard_suffix(int number, int count) {
  const auto padded = [](int n) {
    std::string digits = std::to_string(n);
    return std::string(kDigits - std::min(kDigits, digits.size()), '0') + digits;
  };
  return "-" + padded(number) + "-of-" + padded(count) + ".gguf";
}

// "model" of "model-00002-of-00003.gguf" when the file name has that form for this count.
std::optional<std::string> split_prefix(std::string_view file_name, int count) {
  const std::size_t suffix_size = shard_suffix(1, count).size();
  if (file_name.size() < suffix_size) return std::nullopt;
  const std::string_view suffix = file_name.substr(file_name.size() - suffix_size);
  int number = 0;
  std::from_chars(suffix.data() + 1, suffix.data() + 1 + kDigits, number);
  if (number < 1 || number > count || suffix != shard_suffix(number, count)) return std::nullopt;
  return std::string(file_name.substr(0, file_name.size() - suffix_size));
}

// The shard called number `index` + 1 of `count` must say so itself.
Status check_place(const Shard& shard, int index, int count) {
  ENGINE_ASSIGN(const int own_count, shard_count(shard));
  if (own_count != count)
    return file_error(Detail::value, "split.count is " + std::to_string(own_count) +
                                         ", but the model has " + std::to_string(count) + " files");
  ENGINE_ASSIGN(const auto number,
                get_int<std::uint16_t>(shard.header, "split.no", ValueType::u16));
  if (!number) return file_error(Detail::missing, "metadata key \"split.no\" is missing");
  if (*number != index)
    return file_error(*number < index ? Detail::dup : Detail::value,
                      "split.no is " + std::to_string(*number) + ", but by its name the file is " +
                          std::to_string(index));
  return {};
}

Status check_tensor_count(const std::vector<Shard>& shards) {
  ENGINE_ASSIGN(const auto expected, get_int<std::int32_t>(shards.front().header,
                                                           "split.tensors.count", ValueType::i32));
  std::size_t found = 0;
  for (const Shard& shard : shards) found += shard.header.tensors.size();
  if (expected && !std::cmp_equal(*expected, found))
    return file_error(Detail::value, "split.tensors.count is " + std::to_string(*expected) +
                                         ", but the files have " + std::to_string(found) +
                                         " tensors");
  return {};
}

}  // namespace

Status in_file(Status status, const std::string& file_name) {
  if (status.ok() || file_name.empty()) return status;
  return Status(status.code(), status.detail(),
                printable(file_name, file_name.size()) + ": " + status.message());
}

Result<Shard> open_shard(std::unique_ptr<const Source> source, std::string name) {
  auto header = read_header(*source);
  if (!header) return in_file(header.status(), name);
  return Shard{std::move(source), std::move(name), *std::move(header)};
}

Result<Shard> open_shard(const std::filesystem::path& path) {
  std::string name = path.string();
  auto source = open_file(path);
  if (!source) return in_file(source.status(), name);
  return open_shard(*std::move(source), std::move(name));
}

Result<int> shard_count(const Shard& shard) {
  ENGINE_TRY(get_int<std::uint16_t>(shard.header, "split.no", ValueType::u16).status());
  ENGINE_TRY(get_int<std::int32_t>(shard.header, "split.tensors.count", ValueType::i32).status());
  ENGINE_ASSIGN(const auto count,
                get_int<std::uint16_t>(shard.header, "split.count", ValueType::u16));
  if (count && (*count < 1 || *count > kMaxShards))
    return file_error(Detail::value, "split.count is " + std::to_string(*count) + ", not 1 to " +
                                         std::to_string(kMaxShards));
  return count.value_or(1);
}

Result<std::vector<Shard>> open_siblings(const std::filesystem::path& path, Shard shard) {
  ENGINE_ASSIGN(const int count, shard_count(shard));
  const std::string own_name = path.filename().string();
  const auto prefix = split_prefix(own_name, count);
  if (!prefix)
    return in_file(
        file_error(Detail::missing, "this is one of " + std::to_string(count) +
                                        " files of a split model, but its name does not end in " +
                                        shard_suffix(1, count) +
                                        " or the like, so the others cannot be found"),
        shard.name);
  std::vector<Shard> shards;
  for (int i = 0; i < count; ++i) {
    const std::string name = *prefix + shard_suffix(i + 1, count);
    if (name == own_name) {
      shards.push_back(std::move(shard));
    } else {
      const std::filesystem::path sibling = path.parent_path() / name;
      std::error_code error;
      if (!std::filesystem::exists(sibling, error))
        return in_file(file_error(Detail::missing, "this file of the split model is missing"),
                       sibling.string());
      ENGINE_ASSIGN(Shard opened, open_shard(sibling));
      shards.push_back(std::move(opened));
    }
    if (Status status = check_place(shards.back(), i, count); !status.ok())
      return in_file(std::move(status), shards.back().name);
  }
  if (Status status = check_tensor_count(shards); !status.ok())
    return in_file(std::move(status), shards.front().name);
  return shards;
}

}  // namespace engine::gguf
