// Reads the header of a file from front to back. The only code that touches raw file bytes:
// everything else sees values, string views and spans that were cut out here, inside the bounds.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>

namespace engine::gguf {

static_assert(std::endian::native == std::endian::little, "values are used as stored");

// A value at `bytes`, which need not be aligned.
template <class T>
T load(const std::byte* bytes) noexcept {
  static_assert(std::is_trivially_copyable_v<T> && !std::is_same_v<T, bool>);
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

inline std::string_view as_text(std::span<const std::byte> bytes) noexcept {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Sees a prefix of the file. A take that needs more fails without moving, and the caller can tell a
// file that ends too early from a prefix that is too short: needs_more().
class Cursor {
 public:
  // `prefix`: the first bytes of a file of `file_bytes` bytes.
  Cursor(std::span<const std::byte> prefix, std::uint64_t file_bytes) noexcept
      : prefix_(prefix), file_bytes_(file_bytes) {}

  std::uint64_t position() const noexcept { return position_; }
  std::uint64_t remaining() const noexcept { return file_bytes_ - position_; }  // of the file
  std::span<const std::byte> prefix() const noexcept { return prefix_; }

  // Whether the next n bytes can be taken.
  [[nodiscard]] bool has(std::uint64_t n) noexcept {
    if (n <= prefix_.size() - position_) return true;
    needs_more_ = n <= remaining();
    if (needs_more_) wanted_bytes_ = position_ + n;
    return false;
  }

  [[nodiscard]] bool take(std::uint64_t n, std::span<const std::byte>& bytes) noexcept {
    if (!has(n)) return false;
    bytes = prefix_.subspan(position_, n);
    position_ += n;
    return true;
  }

  template <class T>
  [[nodiscard]] bool take(T& value) noexcept {
    std::span<const std::byte> bytes;
    if (!take(sizeof(T), bytes)) return false;
    value = load<T>(bytes.data());
    return true;
  }

  // After a failure: the file does go on, and its first wanted_bytes() were needed.
  bool needs_more() const noexcept { return needs_more_; }
  std::uint64_t wanted_bytes() const noexcept { return wanted_bytes_; }

 private:
  std::span<const std::byte> prefix_;
  std::uint64_t file_bytes_;  // at least prefix_.size()
  std::uint64_t position_ = 0;
  std::uint64_t wanted_bytes_ = 0;
  bool needs_more_ = false;
};

}  // namespace engine::gguf
