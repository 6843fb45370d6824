// KV pages of several sequences, every slot poisoned (0xFF bytes, NaN in both types) until it is
// set.
#pragma once

#include <cstring>
#include <vector>

#include "kernels/op/convert.h"
#include "kernels/op/kv_page.h"
#include "tests/support/buffer.h"
#include "tests/support/compare.h"

namespace engine::test {

// n rows of sequence 0 from position `first` on, each seeing up to itself.
inline std::vector<op::KvRow> consecutive_rows(int first, int n) {
  std::vector<op::KvRow> rows;
  for (int pos = first; pos < first + n; ++pos) rows.push_back({pos, pos, 0});
  return rows;
}

class TestPages {
 public:
  // Room for positions 0 .. n_positions-1 of each sequence.
  TestPages(const op::KvShape& shape, int n_sequences, int n_positions)
      : shape_(shape),
        n_pages_((n_positions + op::kPage - 1) / op::kPage),
        pages_(static_cast<std::size_t>(n_sequences * n_pages_)),
        tables_(static_cast<std::size_t>(n_sequences)) {
    for (std::size_t i = 0; i < pages_.size(); ++i)
      pages_[i] = storage_.emplace_back(shape.page_bytes()).data();
    for (std::size_t s = 0; s < tables_.size(); ++s)
      tables_[s] = pages_.data() + s * static_cast<std::size_t>(n_pages_);
  }

  TestPages(TestPages&&) = default;  // no copies: the tables point into the storage

  op::KvPages pages() const { return {tables_.data()}; }
  const op::KvShape& shape() const { return shape_; }

  float k(int sequence, int pos, int h, int i) const {
    return load(storage(sequence, pos).data(), k_index(pos, h, i));
  }
  float v(int sequence, int pos, int h, int i) const {
    return load(storage(sequence, pos).data() + shape_.part_bytes(), v_index(pos, h, i));
  }
  void set_k(int sequence, int pos, int h, int i, float value) {
    store(storage(sequence, pos).data(), k_index(pos, h, i), value);
  }
  void set_v(int sequence, int pos, int h, int i, float value) {
    store(storage(sequence, pos).data() + shape_.part_bytes(), v_index(pos, h, i), value);
  }

  // As if the page were dropped: reading it crashes.
  void drop(int sequence, int page) { pages_[index(sequence, page * op::kPage)] = nullptr; }

  void poison() {
    for (Buffer<std::byte>& page : storage_) page.poison();
  }
  bool guards_intact() const {
    return std::all_of(storage_.begin(), storage_.end(),
                       [](const auto& page) { return page.guards_intact(); });
  }
  const std::vector<Buffer<std::byte>>& storage() const { return storage_; }

 private:
  std::size_t index(int sequence, int pos) const {
    return static_cast<std::size_t>(sequence * n_pages_ + pos / op::kPage);
  }
  const Buffer<std::byte>& storage(int sequence, int pos) const {
    return storage_[index(sequence, pos)];
  }
  Buffer<std::byte>& storage(int sequence, int pos) { return storage_[index(sequence, pos)]; }
  std::ptrdiff_t k_index(int pos, int h, int i) const {
    return (std::ptrdiff_t{h} * shape_.d + i) * op::kPage + pos % op::kPage;
  }
  std::ptrdiff_t v_index(int pos, int h, int i) const {
    return (std::ptrdiff_t{h} * op::kPage + pos % op::kPage) * shape_.d + i;
  }

  float load(const std::byte* part, std::ptrdiff_t i) const {
    if (shape_.type == op::KvType::f32) return reinterpret_cast<const float*>(part)[i];
    return gguf::f32_from_f16(reinterpret_cast<const std::uint16_t*>(part)[i]);
  }
  void store(std::byte* part, std::ptrdiff_t i, float value) const {
    if (shape_.type == op::KvType::f32)
      reinterpret_cast<float*>(part)[i] = value;
    else
      reinterpret_cast<std::uint16_t*>(part)[i] = op::f16_from_f32(value);
  }

  op::KvShape shape_;
  int n_pages_;
  std::vector<Buffer<std::byte>> storage_;
  Buffer<std::byte*> pages_;          // [n_sequences, n_pages]
  Buffer<std::byte* const*> tables_;  // [n_sequences]
};

// Whole pages, also what must not have been written, with numbers that arithmetic has made: their NaNs are one.
inline void append_bits(Bits& bits, const TestPages& pages) {
  for (const Buffer<std::byte>& page : pages.storage()) {
    if (pages.shape().type == op::KvType::f32) {
      append_bits(bits, std::span(reinterpret_cast<const float*>(page.data()), page.size() / 4));
    } else {
      const auto* halves = reinterpret_cast<const std::uint16_t*>(page.data());
      for (std::size_t i = 0; i < page.size() / 2; ++i)
        bits.push_back(bits_of(gguf::f32_from_f16(halves[i])));
    }
  }
}

}  // namespace engine::test
