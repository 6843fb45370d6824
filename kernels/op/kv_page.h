// Pages of the KV cache: 64 consecutive positions of one layer, aligned to absolute position.
//
//   K part [n_kv, d, 64]   a lane per key, so scores need no shuffles
//   V part [n_kv, 64, d]   a lane per dim
//
// Both of fp16 (rounded to nearest even; overflow becomes infinity and ends in the non-finite
// error) or fp32. Slots not yet written hold anything: no invisible slot ever reaches a result.
#pragma once

#include <cstddef>
#include <cstdint>

namespace engine::op {

inline constexpr int kPage = 64;  // positions of a page, and keys of an attention tile
// Of n positions.
constexpr int n_pages(int n) { return (n + kPage - 1) / kPage; }

enum class KvType { f16, f32 };

struct KvShape {
  int n_kv, d;  // KV heads, dims of a head
  KvType type;
  std::size_t element_bytes() const { return type == KvType::f16 ? 2 : 4; }
  std::size_t part_bytes() const {  // of K, and of V
    return static_cast<std::size_t>(n_kv) * static_cast<std::size_t>(d) * kPage * element_bytes();
  }
  std::size_t page_bytes() const { return 2 * part_bytes(); }
};

// One row of a batch as the cache sees it.
struct KvRow {
  int pos;           // absolute position
  int attend_until;  // last position it may attend to, >= pos
  int sequence;      // index into KvPages tables
};

// The pages of one layer for every sequence of a batch: tables[sequence][pos / 64], null where
// dropped.
struct KvPages {
  std::byte* const* const* tables;
};

}  // namespace engine::op
