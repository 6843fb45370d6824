// vector: dims by lanes; K is scattered, one position of 64 per dim. A row is one work item.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/cpu/lanes.h"
#include "kernels/op/kv_write.h"

namespace engine::cpu {

// to[i] = from[i] in the cache's type.
template <class S>
void convert_kv(const float* from, int n, std::uint16_t* to) {
  for_lanes<S>(0, n, [&]<class T>(int i) { T::store_f16(to + i, T::load(from + i)); });
}
template <class S>
void convert_kv(const float* from, int n, float* to) {
  for_lanes<S>(0, n, [&]<class T>(int i) { T::store(to + i, T::load(from + i)); });
}

template <class S, class Element>
void kv_write_row(const op::KvWriteArgs& a, int t) {
  const std::ptrdiff_t n_kv = a.shape.n_kv, d = a.shape.d;
  const op::KvRow& row = a.rows[t];
  std::byte* page = a.pages.tables[row.sequence][row.pos / op::kPage];
  const int slot = row.pos % op::kPage;
  // 1 keys: all heads' dims in one run
  constexpr std::ptrdiff_t kPiece = 64;
  const float* k = a.k + t * n_kv * d;
  auto* keys = reinterpret_cast<Element*>(page);
  for (std::ptrdiff_t first = 0; first < n_kv * d; first += kPiece) {
    const std::ptrdiff_t n = std::min(kPiece, n_kv * d - first);
    alignas(64) Element piece[kPiece];
    convert_kv<S>(k + first, static_cast<int>(n), piece);
    for (std::ptrdiff_t i = 0; i < n; ++i) keys[(first + i) * op::kPage + slot] = piece[i];
  }
  // 2 values
  const float* v = a.v + t * n_kv * d;
  auto* values = reinterpret_cast<Element*>(page + a.shape.part_bytes());
  for (std::ptrdiff_t h = 0; h < n_kv; ++h)
    convert_kv<S>(v + h * d, static_cast<int>(d), values + (h * op::kPage + slot) * d);
}

template <class S>
void kv_write_rows(const op::KvWriteArgs& a, int begin, int end) {
  for (int t = begin; t < end; ++t) {
    if (a.shape.type == op::KvType::f16)
      kv_write_row<S, std::uint16_t>(a, t);
    else
      kv_write_row<S, float>(a, t);
  }
}

}  // namespace engine::cpu
