#include "engine/weights.h"

#include <algorithm>
#include <atomic>
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

int quotient_up(int a, int b) { return a / b + (a % b != 0 ? 1 : 0); }

std::size_t row_bytes(const gguf::Tensor& tensor) {
  const gguf::TypeTraits& traits = gguf::traits(tensor.type);
  return tensor.row_elements() / traits.block_elements * traits.block_bytes;
}

// What a tensor becomes in memory, but for the place. The head has a layout of its own, see
// kernels/cpu/planes.h.
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
  // In rounds of one slice of every part that the tensor's matmul will have, so that a thread first
  // touches what it will read. A round ends often enough for a smooth progress bar and a prompt
  // cancellation.
  Status fill(const gguf::Tensor& tensor, const op::Matrix& m, std::byte* to) {
    const int item_rows = m.layout == op::Layout::rows ? 1 : cpu::kGroup;
    const int n_rows = as_int(tensor.n_rows());
    const int n_items = quotient_up(n_rows, item_rows);
    const int n_parts = std::max(1, pool_.n_parts(n_items, 1));
    const int slice = quotient_up(slice_rows(tensor), item_rows);
    for (int first = 0; first < quotient_up(n_items, n_parts); first += slice) {
      const auto fill_slice = [&](int part) {
        const int begin = cpu::Pool::part_begin(n_items, n_parts, part) + first;
        const int end = std::min(begin + slice, cpu::Pool::part_begin(n_items, n_parts, part + 1));
        if (begin >= end) return Status();
        return fill_rows(tensor, m, to, begin * item_rows, std::min(n_rows, end * item_rows));
      };
      ENGINE_TRY(pool_.run([&] {
        pool_.parallel_for(n_parts, 1, [&](int begin, int end) {
          for (int part = begin; part < end; ++part)
            note(no_throw([&] { return fill_slice(part); }));
        });
      }));
      ENGINE_TRY(std::move(failure_));
      if (options_.progress &&
          !options_.progress(static_cast<double>(done_bytes_) / static_cast<double>(total_bytes_)))
        return Status(Code::cancelled, "loading was cancelled");
    }
    return {};
  }

  static int slice_rows(const gguf::Tensor& tensor) {
    return as_int(std::max<std::size_t>(1, kSliceBytes / row_bytes(tensor)));
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
    done_bytes_ += bytes;
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
  std::uint64_t total_bytes_;
  std::atomic<std::uint64_t> done_bytes_ = 0;
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
