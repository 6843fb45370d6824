#include "engine/weights.h"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <string>

#include "kernels/cpu/planes.h"

namespace engine {
namespace {

constexpr std::size_t kAlignment = 64;        // of every tensor in memory
constexpr std::size_t kSliceBytes = 1 << 20;  // of a file read at a time by one thread

// Where a tensor goes.
struct Placement {
  const gguf::Tensor* tensor;
  op::Matrix matrix;      // data is set once memory exists
  std::size_t offset;     // in the arena
  std::size_t row_bytes;  // in the file
};

int as_int(std::uint64_t value) {
  return static_cast<int>(value);
}  // shapes were checked against Config

Placement place(const gguf::Tensor& tensor, std::size_t& arena_bytes) {
  const gguf::TypeTraits& traits = gguf::traits(tensor.type);
  Placement p = {&tensor, {}, arena_bytes, 0};
  p.row_bytes = tensor.row_elements() / traits.block_elements * traits.block_bytes;
  const int n_out = as_int(tensor.n_rows()), n_in = as_int(tensor.row_elements());
  const bool planes = cpu::has_planes(tensor.type) && tensor.n_dims == 2;
  p.matrix = {tensor.type, planes ? op::Layout::planes : op::Layout::rows, n_out, n_in, nullptr};
  const std::size_t bytes = planes ? cpu::planes_bytes(tensor.type, n_out, n_in) : tensor.n_bytes;
  arena_bytes += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  return p;
}

// True if every value that decoding multiplies with is finite: floats, or the fp16 scales of a
// block.
bool all_finite(gguf::Type type, std::span<const std::byte> bytes) {
  bool finite = true;
  if (type == gguf::Type::f32) {
    const auto* p = reinterpret_cast<const float*>(bytes.data());
    for (std::size_t i = 0; i < bytes.size() / sizeof *p; ++i) finite &= std::isfinite(p[i]);
  } else if (type == gguf::Type::f16 || type == gguf::Type::bf16) {
    const auto* p = reinterpret_cast<const std::uint16_t*>(bytes.data());
    const auto widen = type == gguf::Type::f16 ? gguf::f32_from_f16 : gguf::f32_from_bf16;
    for (std::size_t i = 0; i < bytes.size() / sizeof *p; ++i) finite &= std::isfinite(widen(p[i]));
  } else {
    gguf::visit_block(type, [&]<class Block>() {
      const auto* p = reinterpret_cast<const Block*>(bytes.data());
      for (std::size_t i = 0; i < bytes.size() / sizeof(Block); ++i) {
        finite &= std::isfinite(gguf::f32_from_f16(p[i].d));
        if constexpr (Block::kMinimum == gguf::Minimum::subtract)
          finite &= std::isfinite(gguf::f32_from_f16(p[i].dmin));
        if constexpr (Block::kMinimum == gguf::Minimum::add)
          finite &= std::isfinite(gguf::f32_from_f16(p[i].m));
      }
    });
  }
  return finite;
}

class Loader {
 public:
  Loader(const gguf::Reader& file, cpu::Pool& pool, const Weights::LoadOptions& options,
         std::byte* arena, std::uint64_t total_bytes)
      : file_(file), pool_(pool), options_(options), arena_(arena), total_bytes_(total_bytes) {}

  Status load(const Placement& p) {
    const int n_rows = p.matrix.n_out;
    const int rows_a_slice = slice_rows(p);
    const int n_slices = (n_rows + rows_a_slice - 1) / rows_a_slice;
    // A round ends often enough for a smooth progress bar and a prompt cancellation.
    constexpr int kSlicesARound = 32;
    for (int first = 0; first < n_slices; first += kSlicesARound) {
      const int count = std::min(kSlicesARound, n_slices - first);
      ENGINE_TRY(pool_.run([&] {
        pool_.parallel_for(count, 1, [&](int begin, int end) {
          for (int s = first + begin; s < first + end; ++s)
            load_rows(p, s * rows_a_slice, std::min(n_rows, (s + 1) * rows_a_slice));
        });
      }));
      ENGINE_TRY(std::move(failure_));
      const int rows_done = std::min(n_rows, (first + count) * rows_a_slice);
      done_bytes_ += static_cast<std::uint64_t>(rows_done - first * rows_a_slice) * p.row_bytes;
      if (options_.progress &&
          !options_.progress(static_cast<double>(done_bytes_) / static_cast<double>(total_bytes_)))
        return Status(Code::cancelled, "loading was cancelled");
    }
    return {};
  }

 private:
  static int slice_rows(const Placement& p) {
    const std::size_t rows =
        std::max<std::size_t>(1, kSliceBytes / std::max<std::size_t>(1, p.row_bytes));
    return as_int((rows + cpu::kGroup - 1) / cpu::kGroup * cpu::kGroup);
  }

  void load_rows(const Placement& p, int begin, int end) {
    Status status;
    try {
      status = try_load_rows(p, begin, end);
    } catch (const std::bad_alloc&) {
      status = Status(Code::out_of_memory,
                      "out of memory while reading tensor " + std::string(p.tensor->name));
    }
    if (status.ok()) return;
    std::lock_guard lock(mutex_);
    if (failure_.ok()) failure_ = std::move(status);
  }

  Status try_load_rows(const Placement& p, int begin, int end) {
    const std::size_t bytes = static_cast<std::size_t>(end - begin) * p.row_bytes;
    const std::uint64_t from = static_cast<std::uint64_t>(begin) * p.row_bytes;
    std::byte* to = arena_ + p.offset;
    const bool planes = p.matrix.layout == op::Layout::planes;
    std::vector<std::byte> slice(planes ? bytes : 0);
    const std::span<std::byte> rows = planes ? std::span(slice) : std::span(to + from, bytes);
    ENGINE_TRY(file_.read(*p.tensor, from, rows));
    if (options_.check_tensors && !all_finite(p.tensor->type, rows))
      return Status(Code::corrupt_file, Detail::value,
                    "tensor " + std::string(p.tensor->name) + ": NaN or infinity in rows " +
                        std::to_string(begin) + " to " + std::to_string(end - 1));
    if (!planes) return {};
    const std::size_t group_bytes = cpu::planes_bytes(p.tensor->type, cpu::kGroup, p.matrix.n_in);
    for (int row = begin; row < end; row += cpu::kGroup)
      cpu::pack_group(p.tensor->type,
                      slice.data() + static_cast<std::size_t>(row - begin) * p.row_bytes,
                      std::min(cpu::kGroup, end - row), p.matrix.n_in,
                      to + static_cast<std::size_t>(row / cpu::kGroup) * group_bytes);
    return {};
  }

  const gguf::Reader& file_;
  cpu::Pool& pool_;
  const Weights::LoadOptions& options_;
  std::byte* arena_;
  std::uint64_t total_bytes_, done_bytes_ = 0;
  std::mutex mutex_;
  Status failure_;
};

}  // namespace

Result<Weights> Weights::load(const gguf::Reader& file, const TensorTable& table, cpu::Pool& pool,
                              const LoadOptions& options) {
  // 1 place every tensor in one arena
  std::size_t arena_bytes = 0;
  std::uint64_t file_bytes = 0;
  std::vector<Placement> placements;
  const auto add = [&](const gguf::Tensor& tensor) {
    placements.push_back(place(tensor, arena_bytes));
    file_bytes += tensor.n_bytes;
  };
  add(*table.token_embd);
  add(*table.output_norm);
  if (table.output != nullptr) add(*table.output);
  for (const LayerTensors& l : table.layers)
    for (const gguf::Tensor* tensor :
         {l.attn_norm, l.attn_q, l.attn_k, l.attn_v, l.attn_q_norm, l.attn_k_norm, l.attn_output,
          l.post_attention_norm, l.ffn_norm, l.ffn_gate, l.ffn_up, l.ffn_down, l.post_ffw_norm})
      add(*tensor);

  // 2 read and repack
  Weights weights;
  ENGINE_ASSIGN(weights.memory, HugeBuffer::create(arena_bytes));
  Loader loader(file, pool, options, weights.memory.data(), file_bytes);
  for (Placement& p : placements) {
    p.matrix.data = weights.memory.data() + p.offset;
    ENGINE_TRY(loader.load(p));
  }

  // 3 hand out, in the order they were added
  auto next = placements.begin();
  const auto matrix = [&] { return (next++)->matrix; };
  const auto vector = [&] { return reinterpret_cast<const float*>((next++)->matrix.data); };
  weights.token_embd = matrix();
  weights.output_norm = vector();
  weights.output = table.output != nullptr ? matrix() : weights.token_embd;
  weights.layers.resize(table.layers.size());
  for (LayerWeights& l : weights.layers) {
    l.attn_norm = vector();
    l.attn_q = matrix();
    l.attn_k = matrix();
    l.attn_v = matrix();
    l.attn_q_norm = vector();
    l.attn_k_norm = vector();
    l.attn_output = matrix();
    l.post_attention_norm = vector();
    l.ffn_norm = vector();
    l.ffn_gate = matrix();
    l.ffn_up = matrix();
    l.ffn_down = matrix();
    l.post_ffw_norm = vector();
  }
  return weights;
}

}  // namespace engine
