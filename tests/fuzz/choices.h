// Turns a fuzzer's bytes into decisions. When the bytes run out, every further decision is the
// first one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace engine::test {

class Choices {
 public:
  explicit Choices(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}

  bool empty() const { return bytes_.empty(); }

  std::uint8_t byte() {
    if (bytes_.empty()) return 0;
    const std::uint8_t first = bytes_.front();
    bytes_ = bytes_.subspan(1);
    return first;
  }

  std::uint64_t bits() {
    std::uint64_t value = 0;
    for (int i = 0; i < 8; ++i) value = value << 8 | byte();
    return value;
  }

  // 0..n-1
  std::size_t below(std::size_t n) {
    const std::size_t value = n <= 256 ? byte() : byte() | std::size_t{byte()} << 8;
    return value % n;
  }

  template <class T, std::size_t n>
  const T& of(const T (&values)[n]) {
    return values[below(n)];
  }

  // At most max_size bytes.
  std::string text(std::size_t max_size) {
    std::string text(below(max_size + 1), '\0');
    for (char& c : text) c = static_cast<char>(byte());
    return text;
  }

  // All bytes that are left.
  std::string rest() {
    const std::string text(bytes_.begin(), bytes_.end());
    bytes_ = {};
    return text;
  }

 private:
  std::span<const std::uint8_t> bytes_;
};

}  // namespace engine::test
