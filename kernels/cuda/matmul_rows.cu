// Weights as they are in the file: the generic kernels.
//
// Quantised: grid: ceil(n_out/32) x ceil(n_t/8); block: 8 warps; a warp has 4 rows and 8 columns; lane:
// row lane/8, block lane%8 of each segment; shared memory: a segment of the file's blocks of every row.
// Float: grid: ceil(n_out/8) x ceil(n_t/8); block: 8 warps; a warp has a row and 8 columns; lane l: inputs
// l, l+32, … of each segment.
#include "kernels/cuda/block.cuh"
#include "kernels/cuda/matmul.cuh"
#include "kernels/cuda/quant.cuh"

namespace engine::ENGINE_DEVICE_NS {
namespace {

constexpr int kWarps = 8;
constexpr int kColumns = 8;
constexpr int kWarpRows = 32 / op::kSegmentBlocks;

constexpr int kMostColumns = 65535 * kColumns;  // a grid's y ends there

__device__ __forceinline__ int first_column() { return static_cast<int>(blockIdx.y) * kColumns; }

template <class Block>
constexpr int kSegmentBytes = op::kSegment / Block::kElements* int{sizeof(Block)};

// One block of 32 weights: signed bytes, four in a word, and what multiplies them.
struct DecodedBlock {
  unsigned quads[8];
  BlockScales scales;
};

template <class Block>
__device__ __forceinline__ DecodedBlock decode_block(const Block& block, int first) {
  DecodedBlock w = {};
  for (int k = 0; k < 8; ++k)
    for (int i = 0; i < 4; ++i)
      w.quads[k] |= (static_cast<unsigned>(block.quant(first + 4 * k + i)) & 0xFFu) << 8 * i;
  for (int j = 0; j < op::kBlock / Block::kSubBlock; ++j) {
    const int sub_block = first / Block::kSubBlock + j;
    w.scales.s[j] = static_cast<float>(block.sub_scale(sub_block));
    if constexpr (Block::kMinimum == gguf::Minimum::subtract)
      w.scales.n[j] = static_cast<float>(block.sub_min(sub_block));
  }
  w.scales.d = gguf::f32_from_f16(block.d);
  if constexpr (Block::kMinimum == gguf::Minimum::subtract)
    w.scales.m = gguf::f32_from_f16(block.dmin);
  if constexpr (Block::kMinimum == gguf::Minimum::add) w.scales.m = gguf::f32_from_f16(block.m);
  return w;
}

// The term of block `at` of the activations, counted through all columns.
template <class Block>
__device__ __forceinline__ float column_term(const DecodedBlock& w, const op::QuantizedRows& x,
                                             std::ptrdiff_t at) {
  constexpr int kSubBlocks = op::kBlock / Block::kSubBlock;
  int high[2] = {}, low[2] = {};
  const auto* q = reinterpret_cast<const uint4*>(x.q + at * op::kBlock);
  for (int k = 0; k < 8; k += 2) {
    const uint4 two_quads = load_readonly(q + k / 2);
    const QuadBytes even = quad_bytes(two_quads.x, two_quads.y);
    const QuadBytes odd = quad_bytes(two_quads.z, two_quads.w);
    const int j = kSubBlocks == 2 ? k / 4 : 0;
    high[j] = dp4a_s8s8(w.quads[k], even.high, high[j]);
    low[j] = dp4a_s8u8(w.quads[k], even.low, low[j]);
    high[j] = dp4a_s8s8(w.quads[k + 1], odd.high, high[j]);
    low[j] = dp4a_s8u8(w.quads[k + 1], odd.low, low[j]);
  }
  return block_term<kSubBlocks, Block::kMinimum>(
      join_halves(high[0], low[0]), join_halves(high[1], low[1]), w.scales,
      load_readonly(x.scale + at), load_readonly(reinterpret_cast<const int2*>(x.sum16) + at));
}

template <class Block>
__global__ void quantized_rows_kernel(op::MatmulArgs a) {
  const int in_warp = lane_index() / op::kSegmentBlocks, b = lane_index() % op::kSegmentBlocks;
  const int block_row = warp_index() * kWarpRows + in_warp;
  const int o = block_index() * kWarps * kWarpRows + block_row;
  const int t0 = first_column(), n_columns = min(kColumns, a.n_t - t0);
  const int n_blocks = a.w.n_in / op::kBlock;

  auto* const segment = dynamic_shared<std::uint16_t>() +
                        block_row * (kSegmentBytes<Block> / int{sizeof(std::uint16_t)});
  const auto* row = reinterpret_cast<const std::uint16_t*>(
      a.w.data + static_cast<std::ptrdiff_t>(o) * (a.w.n_in / Block::kElements) *
                     static_cast<std::ptrdiff_t>(sizeof(Block)));
  float y[kColumns] = {};
  for (int b0 = 0; b0 < n_blocks; b0 += op::kSegmentBlocks) {
    const int count = min(op::kSegmentBlocks, n_blocks - b0);
    // 1 the segment's bytes: a file's block is a lane's or all eight lanes'
    const int n_halves = count * op::kBlock / Block::kElements * int{sizeof(Block)} / 2;
    if (o < a.w.n_out)
      for (int i = b; i < n_halves; i += op::kSegmentBlocks)
        store_shared(segment + i, load_readonly(row + i));
    row += n_halves;
    __syncwarp();
    // 2 terms; plain loads of shared memory, since the members of a block read themselves
    float terms[kColumns] = {};
    if (o < a.w.n_out && b < count) {
      const int first = b * op::kBlock;
      const auto* blocks = reinterpret_cast<const Block*>(segment);
      const DecodedBlock w =
          decode_block(blocks[first / Block::kElements], first % Block::kElements);
#pragma unroll
      for (int c = 0; c < kColumns; ++c)
        if (c < n_columns)
          terms[c] =
              column_term<Block>(w, a.xq, static_cast<std::ptrdiff_t>(t0 + c) * n_blocks + b0 + b);
    }
    // 3 tree, once nobody reads the segment's bytes any more
    __syncwarp();
#pragma unroll
    for (int c = 0; c < kColumns; ++c)
      if (c < n_columns) y[c] = y[c] + segment_tree<1>(terms[c]);
  }
  if (o >= a.w.n_out || b != 0) return;
#pragma unroll
  for (int c = 0; c < kColumns; ++c)
    if (c < n_columns)
      store_global(a.y + static_cast<std::ptrdiff_t>(t0 + c) * a.w.n_out + o, y[c]);
}

struct F32Weights {
  using Element = float;
  static __device__ __forceinline__ float widen(float w) { return w; }
};
struct F16Weights {
  using Element = std::uint16_t;
  static __device__ __forceinline__ float widen(std::uint16_t w) { return gguf::f32_from_f16(w); }
};
struct BF16Weights {
  using Element = std::uint16_t;
  static __device__ __forceinline__ float widen(std::uint16_t w) { return gguf::f32_from_bf16(w); }
};

static_assert(op::kDotLanes == kWarp);

template <class Weights>
__global__ void float_rows_kernel(op::MatmulArgs a) {
  const int o = block_index() * kWarps + warp_index(), lane = lane_index();
  const int t0 = first_column(), n_columns = min(kColumns, a.n_t - t0);
  if (o >= a.w.n_out) return;  // whole warps

  const auto* row = reinterpret_cast<const typename Weights::Element*>(a.w.data) +
                    static_cast<std::ptrdiff_t>(o) * a.w.n_in;
  float y[kColumns] = {};
  for (int first = 0; first < a.w.n_in; first += op::kSegment) {
    float p[kColumns] = {};
    const int end = min(first + op::kSegment, a.w.n_in);
    for (int i = first + lane; i < end; i += op::kDotLanes) {
      const float w = Weights::widen(load_streaming(row + i));
#pragma unroll
      for (int c = 0; c < kColumns; ++c)
        if (c < n_columns)
          p[c] = op::Scalar::fma(
              w, load_readonly(a.x + static_cast<std::ptrdiff_t>(t0 + c) * a.w.n_in + i), p[c]);
    }
#pragma unroll
    for (int c = 0; c < kColumns; ++c)
      if (c < n_columns) y[c] = y[c] + warp_tree(p[c]);
  }
  if (lane != 0) return;
#pragma unroll
  for (int c = 0; c < kColumns; ++c)
    if (c < n_columns)
      store_global(a.y + static_cast<std::ptrdiff_t>(t0 + c) * a.w.n_out + o, y[c]);
}

dim3 grid(const op::MatmulArgs& a, int rows_per_block) {
  return dim3(static_cast<unsigned>((a.w.n_out + rows_per_block - 1) / rows_per_block),
              static_cast<unsigned>((a.n_t + kColumns - 1) / kColumns));
}

void launch_columns(const op::MatmulArgs& a, Stream& stream) {
  const dim3 block(32 * kWarps);
  const auto run = [&](void (*kernel)(op::MatmulArgs), int rows_per_block, std::size_t shared) {
    launch(kernel, {grid(a, rows_per_block), "matmul_rows"}, block, shared, stream, a);
  };
  switch (a.w.type) {
    case gguf::Type::f32:
      return run(float_rows_kernel<F32Weights>, kWarps, 0);
    case gguf::Type::f16:
      return run(float_rows_kernel<F16Weights>, kWarps, 0);
    case gguf::Type::bf16:
      return run(float_rows_kernel<BF16Weights>, kWarps, 0);
    default:
      break;
  }
  gguf::visit_block(a.w.type, [&]<class Block>() {
    run(quantized_rows_kernel<Block>, kWarps * kWarpRows,
        std::size_t{kWarps} * kWarpRows * kSegmentBytes<Block>);
  });
}

// Columns first .. first+kMostColumns-1, as far as there are.
op::MatmulArgs columns_from(op::MatmulArgs a, int first) {
  const std::ptrdiff_t n_before = first, n_blocks = a.w.n_in / op::kBlock;
  if (a.x != nullptr) a.x += n_before * a.w.n_in;
  if (a.xq.q != nullptr) {
    a.xq.q += n_before * a.w.n_in;
    a.xq.scale += n_before * n_blocks;
    a.xq.sum16 += n_before * n_blocks * 2;
  }
  a.y += n_before * a.w.n_out;
  a.n_t = min(a.n_t - first, kMostColumns);
  return a;
}

}  // namespace

void matmul_rows(const op::MatmulArgs& a, Stream& stream) {
  for (int first = 0; first < a.n_t; first += kMostColumns)
    launch_columns(columns_from(a, first), stream);
}

}  // namespace engine::ENGINE_DEVICE_NS
