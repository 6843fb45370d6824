#include "kernels/op/kv_write.h"

#include <cstring>

#include "kernels/op/convert.h"

namespace engine::ref {
namespace {

void store(std::byte* part, std::ptrdiff_t index, float value, op::KvType type) {
  if (type == op::KvType::f32) {
    std::memcpy(part + 4 * index, &value, 4);
  } else {
    const std::uint16_t half = op::f16_from_f32(value);
    std::memcpy(part + 2 * index, &half, 2);
  }
}

}  // namespace

void kv_write(const op::KvWriteArgs& a) {
  const op::KvShape& shape = a.shape;
  for (int t = 0; t < a.n_t; ++t) {
    const op::KvRow& row = a.rows[t];
    std::byte* k_part = a.pages.tables[row.sequence][row.pos / op::kPage];
    std::byte* v_part = k_part + shape.part_bytes();
    const std::ptrdiff_t slot = row.pos % op::kPage;
    for (int h = 0; h < shape.n_kv; ++h) {
      for (int i = 0; i < shape.d; ++i) {
        const std::ptrdiff_t head_dim = std::ptrdiff_t{h} * shape.d + i;
        const std::ptrdiff_t source = std::ptrdiff_t{t} * shape.n_kv * shape.d + head_dim;
        store(k_part, head_dim * op::kPage + slot, a.k[source], shape.type);
        store(v_part, (std::ptrdiff_t{h} * op::kPage + slot) * shape.d + i, a.v[source],
              shape.type);
      }
    }
  }
}

}  // namespace engine::ref
