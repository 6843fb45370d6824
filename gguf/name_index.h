// Finds rows of a table by name. A sorted index, not a hash table: no choice of names in a file can
// make it slow.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string_view>
#include <vector>

namespace engine::gguf {

// Row must have an overload of name_of(const Row&). The table is passed to every call, so that the
// two can be moved together.
template <class Row>
class NameIndex {
 public:
  NameIndex() = default;
  explicit NameIndex(const std::vector<Row>& rows) : order_(rows.size()) {
    std::iota(order_.begin(), order_.end(), 0u);
    std::sort(order_.begin(), order_.end(), [&](std::uint32_t a, std::uint32_t b) {
      return name_of(rows[a]) < name_of(rows[b]);
    });
  }

  const Row* find(const std::vector<Row>& rows, std::string_view name) const noexcept {
    const auto found = std::lower_bound(
        order_.begin(), order_.end(), name,
        [&](std::uint32_t row, std::string_view wanted) { return name_of(rows[row]) < wanted; });
    return found != order_.end() && name_of(rows[*found]) == name ? &rows[*found] : nullptr;
  }

  // A row whose name another one has too, or null.
  const Row* find_duplicate(const std::vector<Row>& rows) const noexcept {
    const auto found = std::adjacent_find(
        order_.begin(), order_.end(),
        [&](std::uint32_t a, std::uint32_t b) { return name_of(rows[a]) == name_of(rows[b]); });
    return found != order_.end() ? &rows[*found] : nullptr;
  }

 private:
  std::vector<std::uint32_t> order_;
};

}  // namespace engine::gguf
