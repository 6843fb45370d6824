// vector: dims of V by lanes; K is scattered, one position of 64 per dim. A row is one work item.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/lanes.h"
#include "kernels/op/convert.h"
#include "kernels/op/kv_write.h"

namespace engine::cpu {

template <class S>
void kv_write_rows(const op::KvWriteArgs& a, int begin, int end) {
  const std::ptrdiff_t n_kv = a.shape.n_kv, d = a.shape.d;
  for (int t = begin; t < end; ++t) {
    const op::KvRow& row = a.rows[t];
    std::byte* page = a.pages.tables[row.sequence][row.pos / op::kPage];
    const int slot = row.pos % op::kPage;
    const float* k = a.k + t * n_kv * d;
    const float* v = a.v + t * n_kv * d;
    const auto store_row = [&](auto* keys, auto* values, auto convert, auto store) {
      // 1 keys
      for (std::ptrdiff_t i = 0; i < n_kv * d; ++i) keys[i * op::kPage + slot] = convert(k[i]);
      // 2 values
      for (std::ptrdiff_t h = 0; h < n_kv; ++h)
        store(values + (h * op::kPage + slot) * d, v + h * d);
    };
    std::byte* const values = page + a.shape.part_bytes();
    if (a.shape.type == op::KvType::f16) {
      store_row(
          reinterpret_cast<std::uint16_t*>(page), reinterpret_cast<std::uint16_t*>(values),
          [](float x) { return op::f16_from_f32(x); },
          [&](std::uint16_t* to, const float* from) {
            for_lanes<S>(0, static_cast<int>(d),
                         [&]<class T>(int i) { T::store_f16(to + i, T::load(from + i)); });
          });
    } else {
      store_row(
          reinterpret_cast<float*>(page), reinterpret_cast<float*>(values),
          [](float x) { return x; },
          [&](float* to, const float* from) {
            std::memcpy(to, from, static_cast<std::size_t>(d) * 4);
          });
    }
  }
}

}  // namespace engine::cpu
