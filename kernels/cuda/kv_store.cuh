// Where a key or value goes in the cache (op/kv_page.h), and in which type.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/ptx.cuh"
#include "kernels/op/convert.h"
#include "kernels/op/kv_page.h"

namespace engine::ENGINE_DEVICE_NS {

__device__ __forceinline__ void store_kv(std::uint16_t* to, float v) {
  store_global(to, op::f16_from_f32(v));
}
__device__ __forceinline__ void store_kv(float* to, float v) { store_global(to, v); }

// The page of a row's position.
__device__ __forceinline__ std::byte* page_of(const op::KvPages& pages, const op::KvRow& row) {
  const std::byte* const* table = load_readonly(pages.tables + row.sequence);
  return const_cast<std::byte*>(load_readonly(table + row.pos / op::kPage));
}

// head_dim: index h * d + i of a row of K or V.
template <class Element>
__device__ __forceinline__ void store_key(std::byte* page, int slot, int head_dim, float k) {
  store_kv(reinterpret_cast<Element*>(page) + std::ptrdiff_t{head_dim} * op::kPage + slot, k);
}
template <class Element>
__device__ __forceinline__ void store_value(std::byte* page, const op::KvShape& shape, int slot,
                                            int head_dim, float v) {
  const int h = head_dim / shape.d, i = head_dim - h * shape.d;
  auto* values = reinterpret_cast<Element*>(
      page + static_cast<std::ptrdiff_t>(shape.n_kv) * shape.d * op::kPage *
                 static_cast<std::ptrdiff_t>(sizeof(Element)));
  store_kv(values + (std::ptrdiff_t{h} * op::kPage + slot) * shape.d + i, v);
}

}  // namespace engine::ENGINE_DEVICE_NS
