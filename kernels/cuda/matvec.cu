// Weights in planes, few columns.
//
// grid: shares of the groups of all matrices x ceil(n_t/kColumns); block: 4 warps; a warp has a group of 4
// rows at a time and all kColumns columns; lane 4*b + r: block b of each segment of row r; shared memory: the
// activations of a chunk of inputs, split into their bytes.
#include "kernels/cuda/block.cuh"
#include "kernels/cuda/gated.cuh"
#include "kernels/cuda/logit_span.cuh"
#include "kernels/cuda/matmul.cuh"
#include "kernels/cuda/quant.cuh"

namespace engine::ENGINE_DEVICE_NS {
namespace {

constexpr int kWarps = 4, kThreads = 32 * kWarps;
// Blocks of inputs that shared memory holds at a time: eight columns of them take 38 KB.
constexpr int kChunkBlocks = 64;
// Groups of a warp: many enough that loading the activations costs little beside the weights, and still
// several blocks for every SM of the largest cards.
constexpr int kFewestBlocks = 2048, kMostGroups = 16;

__host__ __device__ constexpr int groups(int n_out) {
  return (n_out + cuda::kGroup - 1) / cuda::kGroup;
}
__host__ __device__ constexpr int groups_per_warp(int n_out) {
  const int n = groups(n_out) / (kWarps * kFewestBlocks);
  return n < 1 ? 1 : n > kMostGroups ? kMostGroups : n;
}

// Activations in shared memory, as [columns][blocks] of each part.
struct Activations {
  uint4* bytes;  // of a block: high bytes of quads 0..3, 4..7, low bytes of quads 0..3, 4..7
  int2* sum16;
  float* scale;

  static constexpr int kBlockBytes =
      4 * int{sizeof(uint4)} + int{sizeof(int2)} + int{sizeof(float)};

  __device__ explicit Activations(int n_blocks)
      : bytes(dynamic_shared<uint4>()),
        sum16(reinterpret_cast<int2*>(bytes + 4 * n_blocks)),
        scale(reinterpret_cast<float*>(sum16 + n_blocks)) {}
};

// Blocks first .. first+count-1 of columns t0 .. t0+kColumns-1, absent columns as zeros.
template <int kColumns>
__device__ __forceinline__ void load_activations(const op::MatmulArgs& a, int t0, int first,
                                                 int count, const Activations& to) {
  const int n_blocks = a.w.n_in / op::kBlock;
  for (int c = 0; c < kColumns; ++c) {
    const bool present = t0 + c < a.n_t;
    const std::ptrdiff_t from = static_cast<std::ptrdiff_t>(t0 + c) * n_blocks + first;
    for (int i = thread_index(); i < 4 * count; i += kThreads) {  // pairs of quads
      uint4 x = {};
      if (present)
        x = load_readonly(reinterpret_cast<const uint4*>(a.xq.q + from * op::kBlock) + i);
      const QuadBytes even = quad_bytes(x.x, x.y), odd = quad_bytes(x.z, x.w);
      uint2* const block = reinterpret_cast<uint2*>(to.bytes + 4 * (c * count + i / 4));
      store_shared(block + i % 4, make_uint2(even.high, odd.high));
      store_shared(block + 4 + i % 4, make_uint2(even.low, odd.low));
    }
    for (int b = thread_index(); b < count; b += kThreads) {
      float scale = 0.0f;
      int2 sum16 = {};
      if (present) {
        scale = load_readonly(a.xq.scale + from + b);
        sum16 = load_readonly(reinterpret_cast<const int2*>(a.xq.sum16) + from + b);
      }
      store_shared(to.scale + c * count + b, scale);
      store_shared(to.sum16 + c * count + b, sum16);
    }
  }
}

// The terms of a block of weights; block: of the activations in shared memory, `stride` blocks a column.
template <class Format, int kColumns>
__device__ __forceinline__ void block_terms(const PackedBlock<Format>& w, const Activations& x,
                                            int block, int stride, float (&terms)[kColumns]) {
  constexpr int kSubBlocks = op::kBlock / Format::Block::kSubBlock;
  int high[2][kColumns] = {}, low[2][kColumns] = {};
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    unsigned quads[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) quads[k] = quad(w, 4 * half + k);
    const int j = kSubBlocks == 2 ? half : 0;
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      const uint4* const at = x.bytes + 4 * (c * stride + block) + half;
      const uint4 x_high = load_shared(at), x_low = load_shared(at + 2);
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        high[j][c] = multiply_high<Format>(quads[k], word(x_high, k), high[j][c]);
        low[j][c] = multiply_low<Format>(quads[k], word(x_low, k), low[j][c]);
      }
    }
  }
  const BlockScales scales = scales_of(w);
#pragma unroll
  for (int c = 0; c < kColumns; ++c) {
    const int2 x_sum = load_shared(x.sum16 + c * stride + block);
    int first = join_halves(high[0][c], low[0][c]), second = join_halves(high[1][c], low[1][c]);
    first -= Format::kOffset * (kSubBlocks == 2 ? x_sum.x : x_sum.x + x_sum.y);
    second -= Format::kOffset * x_sum.y;
    terms[c] = block_term<kSubBlocks, Format::Block::kMinimum>(
        first, second, scales, load_shared(x.scale + c * stride + block), x_sum);
  }
}

// The groups of this warp, segment after segment, of gated matrices first the gate's and then the other's. All
// warps of a block make the same steps, because they load activations together; without a group of its own
// a warp only does that.
struct Steps {
  int group, segment, n_segments;
  int matrix, n_matrices;
  __device__ void advance() {
    if (++segment < n_segments) return;
    segment = 0;
    if (++matrix < n_matrices) return;
    matrix = 0;
    group += kWarps;
  }
};

template <class Format, int kColumns>
__device__ void multiply(const Batch& all, int m, int block) {
  const op::MatmulArgs* const matrices = all.of + m;
  const op::MatmulArgs& a = matrices[0];
  float* const gated_y = all.gated;
  const bool has_span = kColumns == 1 && all.spans != nullptr;
  // Segments whose weights are on their way.
  constexpr int kAhead = kColumns <= 2 ? 4 : 2;
  const cuda::GroupLayout<Format> layout{a.w.n_in / op::kBlock};
  const int n_groups = groups(a.w.n_out), of_warp = groups_per_warp(a.w.n_out);
  const int n_segments = (layout.n_blocks + op::kSegmentBlocks - 1) / op::kSegmentBlocks;
  const int n_matrices = gated_y != nullptr ? 2 : 1;
  const int n_steps = of_warp * n_segments * n_matrices;
  const int lane = lane_index();
  const int t0 = static_cast<int>(blockIdx.y) * kColumns;
  const auto load = [&](const Steps& at) {
    if (at.group >= n_groups || lane >= cuda::kGroup * layout.count(at.segment))
      return PackedBlock<Format>{};
    const std::byte* data = matrices[at.matrix].w.data;
    return load_block(data + static_cast<std::ptrdiff_t>(at.group) * layout.bytes(), layout,
                      at.segment, lane);
  };

  // 1 the first weights, before anything waits
  Steps now{block * kWarps * of_warp + warp_index(), 0, n_segments, 0, n_matrices};
  Steps next = now;
  PackedBlock<Format> blocks[kAhead];
#pragma unroll
  for (int i = 0; i < kAhead; ++i, next.advance())
    if (i < n_steps) blocks[i] = load(next);

  const bool chunks = layout.n_blocks > kChunkBlocks;
  Activations x(kColumns * min(layout.n_blocks, kChunkBlocks));
  int in_chunk = min(layout.n_blocks, kChunkBlocks);
  float y[kColumns] = {}, gate[kColumns] = {};
  std::uint64_t best = 0;  // of the lane's logits
  bool is_bad = false;
  for (int step = 0; step < n_steps; step += kAhead) {
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      if (step + i >= n_steps) break;
      // 2 activations
      const int first = now.segment * op::kSegmentBlocks;
      if (step + i == 0 || (chunks && first % kChunkBlocks == 0)) {
        in_chunk = min(layout.n_blocks - first, kChunkBlocks);
        __syncthreads();
        x = Activations(kColumns * in_chunk);
        load_activations<kColumns>(a, t0, first, in_chunk, x);
        __syncthreads();
      }
      // 3 terms
      const bool busy = now.group < n_groups;  // the same in all lanes
      float terms[kColumns] = {};
      const int b = lane / cuda::kGroup;
      if (busy && b < layout.count(now.segment))
        block_terms<Format, kColumns>(blocks[i], x, first % kChunkBlocks + b, in_chunk, terms);
      if (step + i + kAhead < n_steps) blocks[i] = load(next);
      next.advance();
      // 4 tree and row
      if (busy) {
#pragma unroll
        for (int c = 0; c < kColumns; ++c) y[c] = y[c] + segment_tree<cuda::kGroup>(terms[c]);
      }
      if (now.segment == n_segments - 1) {
        const int o = now.group * cuda::kGroup + lane;
        const bool is_gate = now.matrix + 1 < n_matrices;
#pragma unroll
        for (int c = 0; c < kColumns; ++c) {
          if (!is_gate && lane < cuda::kGroup && o < a.w.n_out && t0 + c < a.n_t) {
            const std::ptrdiff_t at = static_cast<std::ptrdiff_t>(t0 + c) * a.w.n_out + o;
            if (n_matrices == 1)
              store_global(a.y + at, y[c]);
            else
              store_global(gated_y + at, gated(gate[c], y[c]));
            if (has_span) {
              is_bad |= op::is_bad_logit(y[c]);
              if (o < all.n_ids) best = max(best, op::logit_rank(y[c], o));
            }
          }
          gate[c] = y[c];
          y[c] = 0.0f;
        }
      }
      now.advance();
    }
  }
  // 5 span
  if (has_span) {
    __syncthreads();
    static_assert(kWarps * sizeof(std::uint64_t) <= Activations::kBlockBytes);
    store_span(best, is_bad, dynamic_shared<std::uint64_t>(), all.spans + block);
  }
}

template <int kColumns>
__global__ void __launch_bounds__(kThreads, kColumns == 1 ? 4 : 3)
    matvec_kernel(const __grid_constant__ Batch all) {
  const int m = all.find(block_index());
  const int block = block_index() - all.first_block[m];
  switch (all.of[m].w.type) {
    case gguf::Type::q8_0:
      return multiply<cuda::Q8_0Planes, kColumns>(all, m, block);
    case gguf::Type::q5_0:
      return multiply<cuda::Q5_0Planes, kColumns>(all, m, block);
    case gguf::Type::q4_k:
      return multiply<cuda::Q4_KPlanes, kColumns>(all, m, block);
    default:
      return multiply<cuda::Q6_KPlanes, kColumns>(all, m, block);
  }
}

int quotient_up(int a, int b) { return (a + b - 1) / b; }

int blocks(int n_out) { return quotient_up(groups(n_out), kWarps * groups_per_warp(n_out)); }

// chunk: the most blocks of inputs that shared memory has to hold.
void launch_matvec(const Batch& all, int n_blocks, int chunk, Stream& stream) {
  const int n_t = all.of[0].n_t;
  const int n_columns = n_t <= 2 ? n_t : n_t <= 4 ? 4 : kMatvecColumns;
  const dim3 grid(static_cast<unsigned>(n_blocks),
                  static_cast<unsigned>(quotient_up(n_t, n_columns)));
  const auto shared = static_cast<std::size_t>(n_columns * chunk * Activations::kBlockBytes);
  const auto run = [&](void (*kernel)(Batch)) {
    launch(kernel, grid, dim3(kThreads), shared, stream, all);
  };
  n_columns == 1   ? run(matvec_kernel<1>)
  : n_columns == 2 ? run(matvec_kernel<2>)
  : n_columns == 4 ? run(matvec_kernel<4>)
                   : run(matvec_kernel<kMatvecColumns>);
}

int chunk_blocks(const op::Matrix& w) { return min(w.n_in / op::kBlock, kChunkBlocks); }

}  // namespace

void matvec(std::span<const op::MatmulArgs> matrices, Stream& stream) {
  Batch all = {};
  int n_blocks = 0, chunk = 0;
  for (const op::MatmulArgs& a : matrices) {
    all.of[all.n] = a;
    all.first_block[all.n] = n_blocks;
    ++all.n;
    n_blocks += blocks(a.w.n_out);
    chunk = max(chunk, chunk_blocks(a.w));
  }
  launch_matvec(all, n_blocks, chunk, stream);
}

void matvec_gated(const op::FfnGateUpArgs& a, Stream& stream) {
  const Batch all = {{a.gate, a.up}, {}, 1, a.y, nullptr, 0};
  launch_matvec(all, blocks(a.gate.w.n_out), chunk_blocks(a.gate.w), stream);
}

int matvec_spans(const op::HeadLogitsArgs& a, Stream& stream) {
  const op::Matrix& w = a.matmul.w;
  const Batch all = {{a.matmul}, {}, 1, nullptr, a.spans, a.n_ids};
  launch_matvec(all, blocks(w.n_out), chunk_blocks(w), stream);
  return cuda::kGroup * kWarps * groups_per_warp(w.n_out);
}

}  // namespace engine::ENGINE_DEVICE_NS
