#include "engine/weights.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <string>

#include "engine/align.h"
#include "engine/load_weights.h"
#include "engine/tensor_rows.h"
#include "gguf/no_throw.h"
#include "kernels/cpu/planes.h"

namespace engine {
namespace {

constexpr std::size_t kAlignment = 64;        // of every tensor in memory
constexpr std::size_t kSliceBytes = 1 << 20;  // of a file read at a time by one thread

// Shapes were checked against Config, which holds them as int.
int as_int(std::uint64_t value) { return static_cast<int>(value); }

int quotient_up(int a, int b) { return a / b + (a % b != 0 ? 1 : 0); }

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
  return align_up(bytes, kAlignment);
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

  Result<op::Matrix> matrix(const gguf::Tensor& tensor, bool is_head) {
    op::Matrix m = stored_form(tensor, is_head);
    m.data = next_;
    ENGINE_TRY(fill(tensor, m, next_));
    next_ += stored_bytes(tensor, m);
    return m;
  }

  Result<const float*> vector(const gguf::Tensor& tensor) {
    ENGINE_ASSIGN(const op::Matrix m, matrix(tensor, false));
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
    ENGINE_TRY(read_rows(file_, tensor, begin, end, options_.check_tensors, rows));
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

}  // namespace

Result<Weights> Weights::load(const gguf::Reader& file, const TensorTable& table, cpu::Pool& pool,
                              const LoadOptions& options) {
  // 1 memory for all tensors
  const gguf::Tensor& head = head_of(table);
  std::size_t arena_bytes = 0;
  std::uint64_t file_bytes = 0;
  for (const gguf::Tensor* tensor : table.all()) {
    arena_bytes += stored_bytes(*tensor, stored_form(*tensor, tensor == &head));
    file_bytes += tensor->n_bytes;
  }
  HugeBuffer memory;
  ENGINE_ASSIGN(memory, HugeBuffer::create(arena_bytes));

  // 2 read and repack
  Loader loader(file, pool, options, memory, file_bytes);
  ENGINE_ASSIGN(Weights weights, load_weights(loader, table));
  weights.memory = std::move(memory);
  return weights;
}

}  // namespace engine
