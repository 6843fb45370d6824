// Weights in planes, many columns, by the tensor cores' int8 products of the two bytes of an activation.
//
// grid: 64 rows of a matrix, all matrices one after the other, x 32 columns; block: 8 warps; a warp has a tile
// of 16 rows x 16 columns, two mma tiles; shared memory: 4 blocks of 32 inputs (half a segment) of the rows and
// columns as signed bytes, and their scales. While one stage is multiplied the next one's memory is read
// into registers, where weights stay packed.
#include "kernels/cuda/block.cuh"
#include "kernels/cuda/matmul.cuh"
#include "kernels/cuda/quant.cuh"

namespace engine::ENGINE_DEVICE_NS {
namespace {

constexpr int kThreads = 256;
constexpr int kTileRows = 64, kTileColumns = 32;
constexpr int kWarpRows = 16, kWarpColumns = 16, kMmas = kWarpColumns / 8;
constexpr int kStageBlocks = op::kSegmentBlocks / 2;
// Strides in shared memory, such that neither the rows of an 8 x 16-byte matrix nor the scales that a warp
// stores share a bank.
constexpr int kByteStride = kStageBlocks * op::kBlock + 16;
constexpr int kScaleStride = 64 + 8;

// One stage in shared memory.
struct Stage {
  std::int8_t w[kTileRows][kByteStride];
  std::int8_t x_high[kTileColumns][kByteStride], x_low[kTileColumns][kByteStride];
  float w_d[kStageBlocks][kScaleStride], w_m[kStageBlocks][kScaleStride];
  float w_s[2][kStageBlocks][kScaleStride], w_n[kStageBlocks][kScaleStride];
  float x_scale[kStageBlocks][kScaleStride];
  int x_sum[kStageBlocks][kScaleStride];
};
static_assert(sizeof(Stage) <= kSharedWithoutAsking);

// A thread's share of a stage on its way: a block of weights, and of the activations the scale of a block and
// twice eight values.
template <class Format>
struct Share {
  static constexpr int kPieces = kTileColumns * kStageBlocks * op::kBlock / 8 / kThreads;
  PackedBlock<Format> w;
  uint4 x[kPieces];
  float x_scale;
  int x_sum;
};
static_assert(kTileRows * kStageBlocks == kThreads);
constexpr int kScaleThreads = kTileColumns * kStageBlocks;  // those that have a scale

// Blocks from `first` on; what lies outside of the matrix or the columns is zero. head: the thread's of the last
// share, which the second half of a segment has as well.
template <class Format>
__device__ __forceinline__ Share<Format> load_share(const op::MatmulArgs& a, int first_row, int t0,
                                                    int first, unsigned head) {
  Share<Format> share = {};
  // 1 weights: 16 neighbouring threads have 4 blocks of a group's 4 rows
  const cuda::GroupLayout<Format> layout{a.w.n_in / op::kBlock};
  const int group = first_row / cuda::kGroup + thread_index() / (cuda::kGroup * kStageBlocks);
  const int segment = first / op::kSegmentBlocks;
  const int lane =
      thread_index() % (cuda::kGroup * kStageBlocks) + first % op::kSegmentBlocks * cuda::kGroup;
  if (group * cuda::kGroup < a.w.n_out && lane < cuda::kGroup * layout.count(segment)) {
    const std::byte* data = a.w.data + static_cast<std::ptrdiff_t>(group) * layout.bytes();
    share.w = load_body(data, layout, segment, lane);
    share.w.head = first % op::kSegmentBlocks == 0 ? load_head(data, layout, segment, lane) : head;
  }
  // 2 activations: 16 neighbouring threads have the values of a column
  const int n_blocks = layout.n_blocks, count = min(kStageBlocks, n_blocks - first);
  constexpr int kOfColumn = kStageBlocks * op::kBlock / 8;
#pragma unroll
  for (int i = 0; i < Share<Format>::kPieces; ++i) {
    const int t = t0 + (thread_index() + i * kThreads) / kOfColumn,
              piece = thread_index() % kOfColumn;
    if (t < a.n_t && piece < count * (op::kBlock / 8))
      share.x[i] = load_readonly(
          reinterpret_cast<const uint4*>(
              a.xq.q + (static_cast<std::ptrdiff_t>(t) * n_blocks + first) * op::kBlock) +
          piece);
  }
  const int t = t0 + thread_index() / kStageBlocks, b = thread_index() % kStageBlocks;
  if (thread_index() < kScaleThreads && t < a.n_t && b < count) {
    const std::ptrdiff_t at = static_cast<std::ptrdiff_t>(t) * n_blocks + first + b;
    share.x_scale = load_readonly(a.xq.scale + at);
    if constexpr (Format::Block::kMinimum != gguf::Minimum::none) {
      const int2 sum16 = load_readonly(reinterpret_cast<const int2*>(a.xq.sum16) + at);
      share.x_sum = sum16.x + sum16.y;
    }
  }
  return share;
}

template <class Format>
__device__ __forceinline__ void store_share(const Share<Format>& share, Stage* stage) {
  // 1 weights
  const int in_group = thread_index() % (cuda::kGroup * kStageBlocks),
            block = in_group / cuda::kGroup;
  const int row =
      thread_index() / (cuda::kGroup * kStageBlocks) * cuda::kGroup + in_group % cuda::kGroup;
#pragma unroll
  for (int half = 0; half < 2; ++half)
    store_shared(
        reinterpret_cast<uint4*>(&stage->w[row][block * op::kBlock + 16 * half]),
        make_uint4(signed_quad(share.w, 4 * half), signed_quad(share.w, 4 * half + 1),
                   signed_quad(share.w, 4 * half + 2), signed_quad(share.w, 4 * half + 3)));
  const BlockScales scales = scales_of(share.w);
  store_shared(&stage->w_d[block][row], scales.d);
  if constexpr (Format::kHead > 0) store_shared(&stage->w_s[0][block][row], scales.s[0]);
  if constexpr (Format::Block::kSubBlock == 16)
    store_shared(&stage->w_s[1][block][row], scales.s[1]);
  if constexpr (Format::Block::kMinimum != gguf::Minimum::none) {
    store_shared(&stage->w_m[block][row], scales.m);
    store_shared(&stage->w_n[block][row], scales.n[0]);
  }
  // 2 activations
  constexpr int kOfColumn = kStageBlocks * op::kBlock / 8;
#pragma unroll
  for (int i = 0; i < Share<Format>::kPieces; ++i) {
    const int column = (thread_index() + i * kThreads) / kOfColumn,
              at = 8 * (thread_index() % kOfColumn);
    const QuadBytes even = signed_quad_bytes(share.x[i].x, share.x[i].y);
    const QuadBytes odd = signed_quad_bytes(share.x[i].z, share.x[i].w);
    store_shared(reinterpret_cast<uint2*>(&stage->x_high[column][at]),
                 make_uint2(even.high, odd.high));
    store_shared(reinterpret_cast<uint2*>(&stage->x_low[column][at]),
                 make_uint2(even.low, odd.low));
  }
  const int column = thread_index() / kStageBlocks, b = thread_index() % kStageBlocks;
  if (thread_index() >= kScaleThreads) return;
  store_shared(&stage->x_scale[b][column], share.x_scale);
  if constexpr (Format::Block::kMinimum != gguf::Minimum::none)
    store_shared(&stage->x_sum[b][column], share.x_sum);
}

// Outputs of a lane in one mma tile, with g = lane / 4 and t = lane % 4: rows g, g, g + 8, g + 8, columns
// 2t, 2t + 1, 2t, 2t + 1.
struct Outputs {
  float of[kMmas][4];
};

// The factors of rows g and g + 8 in block b.
template <class Format>
__device__ __forceinline__ BlockScales row_scales(const Stage* stage, int b, int row) {
  BlockScales scales{load_shared(&stage->w_d[b][row]), 0.0f, {1.0f, 1.0f}, {}};
  if constexpr (Format::kHead > 0) scales.s[0] = load_shared(&stage->w_s[0][b][row]);
  if constexpr (Format::Block::kSubBlock == 16) scales.s[1] = load_shared(&stage->w_s[1][b][row]);
  if constexpr (Format::Block::kMinimum != gguf::Minimum::none) {
    scales.m = load_shared(&stage->w_m[b][row]);
    scales.n[0] = load_shared(&stage->w_n[b][row]);
  }
  return scales;
}

// The terms of block b.
template <class Format>
__device__ __forceinline__ void block_terms(const Stage* stage, int b, int warp_row,
                                            int warp_column, Outputs& terms) {
  constexpr int kSubBlocks = op::kBlock / Format::Block::kSubBlock;
  const int lane = lane_index(), g = lane / 4, t = lane % 4;
  // Lane 8m + r gives row r of matrix m: of w, rows 0..7 and 8..15 in the first and the second 16 inputs; of x,
  // both halves of the inputs of the high bytes and of the low ones.
  const int m = lane / 8, r = lane % 8;
  unsigned w[4];
  load_matrices(w, &stage->w[warp_row + m % 2 * 8 + r][b * op::kBlock + m / 2 * 16]);
#pragma unroll
  for (int n = 0; n < kMmas; ++n) {
    const int column = warp_column + 8 * n;
    unsigned x[4];
    load_matrices(x,
                  &(m < 2 ? stage->x_high : stage->x_low)[column + r][b * op::kBlock + m % 2 * 16]);
    int high[2][4] = {}, low[2][4] = {};
    if constexpr (kSubBlocks == 1) {
      mma_m16n8k32(high[0], w, {x[0], x[1]});
      mma_m16n8k32(low[0], w, {x[2], x[3]});
    } else {
      // A product over 16 inputs is one over 32 of which half are zero.
      const unsigned first[4] = {w[0], w[1], 0, 0}, second[4] = {0, 0, w[2], w[3]};
      mma_m16n8k32(high[0], first, {x[0], x[1]});
      mma_m16n8k32(low[0], first, {x[2], x[3]});
      mma_m16n8k32(high[1], second, {x[0], x[1]});
      mma_m16n8k32(low[1], second, {x[2], x[3]});
    }
    // Loaded for each mma tile again, rather than held in registers.
    const BlockScales scales[2] = {row_scales<Format>(stage, b, warp_row + g),
                                   row_scales<Format>(stage, b, warp_row + g + 8)};
    const float2 dx =
        load_shared(reinterpret_cast<const float2*>(&stage->x_scale[b][column + 2 * t]));
    int2 x_sum = {};
    if constexpr (Format::Block::kMinimum != gguf::Minimum::none)
      x_sum = load_shared(reinterpret_cast<const int2*>(&stage->x_sum[b][column + 2 * t]));
#pragma unroll
    for (int i = 0; i < 4; ++i)
      terms.of[n][i] = block_term<kSubBlocks, Format::Block::kMinimum>(
          join_halves(high[0][i], low[0][i]), join_halves(high[1][i], low[1][i]), scales[i / 2],
          i % 2 == 0 ? dx.x : dx.y, {i % 2 == 0 ? x_sum.x : x_sum.y, 0});
  }
}

__device__ __forceinline__ void add(Outputs& a, const Outputs& b) {
#pragma unroll
  for (int n = 0; n < kMmas; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i) a.of[n][i] = a.of[n][i] + b.of[n][i];
}

template <class Format>
__device__ void multiply(const op::MatmulArgs& a, int first_row) {
  auto* const stage = dynamic_shared<Stage>();
  const int t0 = static_cast<int>(blockIdx.y) * kTileColumns, n_blocks = a.w.n_in / op::kBlock;
  const int warp = warp_index();
  const int warp_row = warp % (kTileRows / kWarpRows) * kWarpRows;
  const int warp_column = warp / (kTileRows / kWarpRows) * kWarpColumns;

  Outputs y = {}, first_half = {};
  Share<Format> share = load_share<Format>(a, first_row, t0, 0, 0);
  for (int first = 0; first < n_blocks; first += kStageBlocks) {
    // 1 the stage's weights and activations
    __syncthreads();
    store_share(share, stage);
    __syncthreads();
    if (first + kStageBlocks < n_blocks)
      share = load_share<Format>(a, first_row, t0, first + kStageBlocks, share.w.head);
    // 2 terms and the tree over half a segment; absent ones are +0, see segment_tree
    Outputs sum = {}, pair = {};
#pragma unroll 1
    for (int b = 0; b < kStageBlocks; ++b) {  // one after the other, to fit the registers
      Outputs terms;
      block_terms<Format>(stage, b, warp_row, warp_column, terms);
      if (b % 2 == 0) {
        pair = terms;
      } else {
        add(pair, terms);
        if (b == 1)
          sum = pair;
        else
          add(sum, pair);
      }
    }
    // 3 row
    if (first % op::kSegmentBlocks == 0) {
      first_half = sum;
      if (first + kStageBlocks < n_blocks) continue;
    } else {
      add(first_half, sum);
    }
    add(y, first_half);
  }

  const int lane = lane_index();
#pragma unroll
  for (int n = 0; n < kMmas; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int o = first_row + warp_row + lane / 4 + i / 2 * 8;
      const int t = t0 + warp_column + 8 * n + lane % 4 * 2 + i % 2;
      if (o < a.w.n_out && t < a.n_t)
        store_global(a.y + static_cast<std::ptrdiff_t>(t) * a.w.n_out + o, y.of[n][i]);
    }
}

__global__ void __launch_bounds__(kThreads, 2)
    matmul_tile_kernel(const __grid_constant__ Batch all) {
  const int m = all.find(block_index());
  const op::MatmulArgs& a = all.of[m];
  const int first_row = (block_index() - all.first_block[m]) * kTileRows;
  switch (a.w.type) {
    case gguf::Type::q8_0:
      return multiply<cuda::Q8_0Planes>(a, first_row);
    case gguf::Type::q5_0:
      return multiply<cuda::Q5_0Planes>(a, first_row);
    case gguf::Type::q4_k:
      return multiply<cuda::Q4_KPlanes>(a, first_row);
    default:
      return multiply<cuda::Q6_KPlanes>(a, first_row);
  }
}

}  // namespace

void matmul_tile(std::span<const op::MatmulArgs> matrices, Stream& stream) {
  Batch all = {};
  int n_blocks = 0;
  for (const op::MatmulArgs& a : matrices) {
    all.of[all.n] = a;
    all.first_block[all.n] = n_blocks;
    ++all.n;
    n_blocks += (a.w.n_out + kTileRows - 1) / kTileRows;
  }
  const int n_t = matrices.front().n_t;
  const dim3 grid(static_cast<unsigned>(n_blocks),
                  static_cast<unsigned>((n_t + kTileColumns - 1) / kTileColumns));
  launch(matmul_tile_kernel, grid, dim3(kThreads), sizeof(Stage), stream, all);
}

}  // namespace engine::ENGINE_DEVICE_NS
