// The CPU backend's ops: what a work item is, and how many of them are worth a thread.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>

#include "kernels/cpu/leaf.h"
#include "kernels/cpu/planes.h"
#include "kernels/cpu/pool.h"

namespace engine::cpu {
namespace {

// Elements of cheap element-wise work below which waking another thread costs more than it saves
// (about 1 us).
constexpr int kGrain = 4096;

// Rows that make up a grain.
int row_grain(int row_elements) { return std::max(1, kGrain / std::max(1, row_elements)); }

// y = decoded row of w.
void decode_matrix_row(const op::Matrix& w, int row, float* y) {
  if (w.layout != op::Layout::rows) return decode_row(w, row, y);
  const std::size_t n = static_cast<std::size_t>(w.n_in), first = static_cast<std::size_t>(row) * n;
  if (w.type == gguf::Type::f32) {
    std::memcpy(y, reinterpret_cast<const float*>(w.data) + first, n * sizeof(float));
  } else if (w.type == gguf::Type::f16 || w.type == gguf::Type::bf16) {
    const auto* halves = reinterpret_cast<const std::uint16_t*>(w.data) + first;
    const auto widen = w.type == gguf::Type::f16 ? gguf::f32_from_f16 : gguf::f32_from_bf16;
    for (std::size_t i = 0; i < n; ++i) y[i] = widen(halves[i]);
  } else {
    gguf::visit_block(w.type, [&]<class Block>() {
      constexpr std::size_t kElements = Block::kElements;
      const auto* blocks = reinterpret_cast<const Block*>(w.data) + first / kElements;
      for (std::size_t i = 0; i < n; ++i)
        y[i] = gguf::decode(blocks[i / kElements], static_cast<int>(i % kElements));
    });
  }
}

// Work items of a matmul: output rows, or groups of interleaved ones.
int n_items(const op::MatmulArgs& a) {
  if (a.n_t == 0) return 0;
  return a.w.layout == op::Layout::rows ? a.w.n_out : (a.w.n_out + kGroup - 1) / kGroup;
}

// Items of a matmul that had better stay together.
int unit(const op::MatmulArgs& a, const Leaf& leaf) {
  return a.w.layout != op::Layout::rows && a.n_t > leaf.direct_columns ? leaf.tile_groups : 1;
}
int n_units(const op::MatmulArgs& a, const Leaf& leaf) {
  return (n_items(a) + unit(a, leaf) - 1) / unit(a, leaf);
}

}  // namespace

void embedding(const op::EmbeddingArgs& a, Pool& pool) {
  pool.parallel_for(a.n_t, row_grain(a.w.n_in), [&](int begin, int end) {
    for (int t = begin; t < end; ++t) {
      float* y = a.y + static_cast<std::ptrdiff_t>(t) * a.w.n_in;
      decode_matrix_row(a.w, a.tokens[t], y);
      for (int i = 0; i < a.w.n_in; ++i) y[i] = y[i] * a.scale;
    }
  });
}

void rmsnorm(const op::RmsNormArgs& a, Pool& pool) {
  pool.parallel_for(a.n_t, row_grain(a.n_i),
                    [&](int begin, int end) { pool.leaf().rmsnorm(a, begin, end); });
}

void quantize(const op::QuantizeArgs& a, Pool& pool) {
  pool.parallel_for(a.n_t, row_grain(a.n_i),
                    [&](int begin, int end) { pool.leaf().quantize(a, begin, end); });
}

void matmul(const op::MatmulArgs& a, Pool& pool) { matmuls({&a, 1}, pool); }

// A part takes its share of every matrix, so parts are of equal bytes whatever the types and sizes,
// and a thread reads the same rows of a matrix whichever others are with it.
void matmuls(std::span<const op::MatmulArgs> all, Pool& pool) {
  int n = 0;
  for (const op::MatmulArgs& a : all) n = std::max(n, n_units(a, pool.leaf()));
  pool.parallel_for(n, 1, [&](int begin, int end) {
    for (const op::MatmulArgs& a : all) {
      const std::int64_t units = n_units(a, pool.leaf());
      const int size = unit(a, pool.leaf()), first = static_cast<int>(units * begin / n) * size,
                last = std::min(static_cast<int>(units * end / n) * size, n_items(a));
      if (first < last) pool.leaf().matmul(a, first, last);
    }
  });
}

void rope(const op::RopeArgs& a, Pool& pool) {
  pool.parallel_for(a.n_t, row_grain(a.n_h * a.d),
                    [&](int begin, int end) { pool.leaf().rope(a, begin, end); });
}

void kv_write(const op::KvWriteArgs& a, Pool& pool) {
  pool.parallel_for(a.n_t, row_grain(2 * a.shape.n_kv * a.shape.d),
                    [&](int begin, int end) { pool.leaf().kv_write(a, begin, end); });
}

void attention(const op::AttentionArgs& a, Pool& pool) {
  const int n_queries = a.n_t * a.n_h;
  const int grain = std::clamp(n_queries / pool.n_threads(), 1, kAttentionGroup);
  pool.parallel_for(n_queries, grain,
                    [&](int begin, int end) { pool.leaf().attention(a, begin, end); });
}

void residual(const op::ResidualArgs& a, Pool& pool) {
  pool.parallel_for(static_cast<int>(a.n), kGrain,
                    [&](int begin, int end) { pool.leaf().residual(a, begin, end); });
}

void geglu(const op::GegluArgs& a, Pool& pool) {
  pool.parallel_for(static_cast<int>(a.n), kGrain,
                    [&](int begin, int end) { pool.leaf().geglu(a, begin, end); });
}

void logsumexp(const op::LogSumExpArgs& a, Pool& pool) {
  pool.parallel_for(a.n_t, 1, [&](int begin, int end) { pool.leaf().logsumexp(a, begin, end); });
}

void sample_weights(const op::SampleWeightsArgs& a, Pool& pool) {
  pool.parallel_for(a.n, kGrain,
                    [&](int begin, int end) { pool.leaf().sample_weights(a, begin, end); });
}

}  // namespace engine::cpu
