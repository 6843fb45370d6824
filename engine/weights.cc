#include "engine/weights.h"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <string>

#include "gguf/no_throw.h"
#include "kernels/cpu/planes.h"

namespace engine {
namespace {

constexpr std::size_t kAlignment = 64;        // of every tensor in memory
constexpr std::size_t kSliceBytes = 1 << 20;  // of a file read at a time by one thread

// Shapes were checked against Config, which holds them as int.
int as_int(std::uint64_t value) { return static_cast<int>(value); }

std::size_t row_bytes(const gguf::Tensor& tensor) {
  const gguf::TypeTraits& traits = gguf::traits(tensor.type);
  return tensor.row_elements() / traits.block_elements * traits.block_bytes;
}

// What a tensor becomes in memory, but for the place. The head is a matrix of its own kind: it is
// read once a token, and its high nibbles alone nearly tell which logits are large.
op::Matrix stored_form(const gguf::Tensor& tensor, bool is_head) {
  op::Layout layout = is_head ? op::Layout::split_planes : op::Layout::planes;
  if (!cpu::has_layout(tensor.type, layout)) layout = op::Layout::planes;
  if (!cpu::has_layout(tensor.type, layout)) layout = op::Layout::rows;
  return {tensor.type, layout, as_int(tensor.n_rows()), as_int(tensor.row_elements()), nullptr};
}

std::size_t stored_bytes(const gguf::Tensor& tensor, const op::Matrix& m) {
  const std::size_t bytes = m.layout == op::Layout::rows ? tensor.n_bytes : cpu::planes_bytes(m);
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
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

// Places tensors in the arena one after the other and fills them.
class Loader {
 public:
  Loader(const gguf::Reader& file, cpu::Pool& pool, const Weights::LoadOptions& options,
         const HugeBuffer& arena, std::uint64_t total_bytes)
      : file_(file),
        pool_(pool),
        options_(options),
        next_(arena.data()),
        total_bytes_(total_bytes) {}

  Result<op::Matrix> matrix(const gguf::Tensor& tensor, bool is_head = false) {
    op::Matrix m = stored_form(tensor, is_head);
    m.data = next_;
    ENGINE_TRY(fill(tensor, m, next_));
    next_ += stored_bytes(tensor, m);
    return m;
  }

  Result<const float*> vector(const gguf::Tensor& tensor) {
    ENGINE_ASSIGN(const op::Matrix m, matrix(tensor));
    return reinterpret_cast<const float*>(m.data);
  }

 private:
  Status fill(const gguf::Tensor& tensor, const op::Matrix& m, std::byte* to) {
    const int n_rows = as_int(tensor.n_rows());
    const int rows_a_slice = slice_rows(tensor);
    const int n_slices = (n_rows + rows_a_slice - 1) / rows_a_slice;
    // A round ends often enough for a smooth progress bar and a prompt cancellation.
    constexpr int kSlicesARound = 32;
    for (int first = 0; first < n_slices; first += kSlicesARound) {
      const int count = std::min(kSlicesARound, n_slices - first);
      ENGINE_TRY(pool_.run([&] {
        pool_.parallel_for(count, 1, [&](int begin, int end) {
          for (int s = first + begin; s < first + end; ++s)
            note(no_throw([&] {
              return fill_rows(tensor, m, to, s * rows_a_slice,
                               std::min(n_rows, (s + 1) * rows_a_slice));
            }));
        });
      }));
      ENGINE_TRY(std::move(failure_));
      const int rows_done = std::min(n_rows, (first + count) * rows_a_slice) - first * rows_a_slice;
      done_bytes_ += static_cast<std::uint64_t>(rows_done) * row_bytes(tensor);
      if (options_.progress &&
          !options_.progress(static_cast<double>(done_bytes_) / static_cast<double>(total_bytes_)))
        return Status(Code::cancelled, "loading was cancelled");
    }
    return {};
  }

  static int slice_rows(const gguf::Tensor& tensor) {
    const std::size_t rows = std::max<std::size_t>(1, kSliceBytes / row_bytes(tensor));
    return as_int((rows + cpu::kGroup - 1) / cpu::kGroup * cpu::kGroup);
  }

  // Keeps the first failure; on any of the pool's threads.
  void note(Status status) {
    if (status.ok()) return;
    std::lock_guard lock(mutex_);
    if (failure_.ok()) failure_ = std::move(status);
  }

  Status fill_rows(const gguf::Tensor& tensor, const op::Matrix& m, std::byte* to, int begin,
                   int end) {
    const std::size_t bytes = static_cast<std::size_t>(end - begin) * row_bytes(tensor);
    const std::size_t from = static_cast<std::size_t>(begin) * row_bytes(tensor);
    const bool planes = m.layout != op::Layout::rows;
    std::vector<std::byte> slice(planes ? bytes : 0);
    const std::span<std::byte> rows = planes ? std::span(slice) : std::span(to + from, bytes);
    ENGINE_TRY(file_.read(tensor, from, rows));
    if (options_.check_tensors && !all_finite(tensor.type, rows))
      return Status(Code::corrupt_file, Detail::value,
                    "tensor " + std::string(tensor.name) + ": NaN or infinity in rows " +
                        std::to_string(begin) + " to " + std::to_string(end - 1));
    if (!planes) return {};
    for (int row = begin; row < end; row += cpu::kGroup)
      cpu::pack_group(m, row / cpu::kGroup,
                      slice.data() + static_cast<std::size_t>(row - begin) * row_bytes(tensor),
                      std::min(cpu::kGroup, end - row), to);
    return {};
  }

  const gguf::Reader& file_;
  cpu::Pool& pool_;
  const Weights::LoadOptions& options_;
  std::byte* next_;  // where the next tensor goes
  std::uint64_t total_bytes_, done_bytes_ = 0;
  std::mutex mutex_;
  Status failure_;
};

Result<LayerWeights> load_layer(Loader& loader, const LayerTensors& t) {
  LayerWeights l = {};
  ENGINE_ASSIGN(l.attn_norm, loader.vector(*t.attn_norm));
  ENGINE_ASSIGN(l.attn_q, loader.matrix(*t.attn_q));
  ENGINE_ASSIGN(l.attn_k, loader.matrix(*t.attn_k));
  ENGINE_ASSIGN(l.attn_v, loader.matrix(*t.attn_v));
  ENGINE_ASSIGN(l.attn_q_norm, loader.vector(*t.attn_q_norm));
  ENGINE_ASSIGN(l.attn_k_norm, loader.vector(*t.attn_k_norm));
  ENGINE_ASSIGN(l.attn_output, loader.matrix(*t.attn_output));
  ENGINE_ASSIGN(l.post_attention_norm, loader.vector(*t.post_attention_norm));
  ENGINE_ASSIGN(l.ffn_norm, loader.vector(*t.ffn_norm));
  ENGINE_ASSIGN(l.ffn_gate, loader.matrix(*t.ffn_gate));
  ENGINE_ASSIGN(l.ffn_up, loader.matrix(*t.ffn_up));
  ENGINE_ASSIGN(l.ffn_down, loader.matrix(*t.ffn_down));
  ENGINE_ASSIGN(l.post_ffw_norm, loader.vector(*t.post_ffw_norm));
  return l;
}

}  // namespace

Result<Weights> Weights::load(const gguf::Reader& file, const TensorTable& table, cpu::Pool& pool,
                              const LoadOptions& options) {
  // 1 memory for all tensors
  const gguf::Tensor& head = table.output != nullptr ? *table.output : *table.token_embd;
  std::size_t arena_bytes = 0;
  std::uint64_t file_bytes = 0;
  for (const gguf::Tensor* tensor : table.all()) {
    arena_bytes += stored_bytes(*tensor, stored_form(*tensor, tensor == &head));
    file_bytes += tensor->n_bytes;
  }
  Weights weights;
  ENGINE_ASSIGN(weights.memory, HugeBuffer::create(arena_bytes));

  // 2 read and repack
  Loader loader(file, pool, options, weights.memory, file_bytes);
  ENGINE_ASSIGN(weights.token_embd, loader.matrix(*table.token_embd, table.token_embd == &head));
  ENGINE_ASSIGN(weights.output_norm, loader.vector(*table.output_norm));
  weights.output = weights.token_embd;
  if (table.output != nullptr) {
    ENGINE_ASSIGN(weights.output, loader.matrix(*table.output, true));
  }
  for (const LayerTensors& tensors : table.layers) {
    ENGINE_ASSIGN(LayerWeights layer, load_layer(loader, tensors));
    weights.layers.push_back(layer);
  }
  return weights;
}

}  // namespace engine
