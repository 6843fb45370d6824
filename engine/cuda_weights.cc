#include "engine/cuda_weights.h"

#include <algorithm>
#include <vector>

#include "engine/align.h"
#include "engine/load_weights.h"
#include "engine/tensor_rows.h"
#include "kernels/cuda/planes.h"

namespace engine::ENGINE_DEVICE_NS {
namespace {

constexpr std::size_t kSliceBytes = 4 << 20;  // read, arranged and uploaded at a time
constexpr int kGroupsAPart = 64;              // arranged by a thread at a time

int as_int(std::uint64_t value) { return static_cast<int>(value); }

// What a tensor becomes on the device, but for the place.
op::Matrix stored_form(const gguf::Tensor& tensor) {
  const op::Layout layout =
      cuda::has_planes(tensor.type) ? op::Layout::device_planes : op::Layout::rows;
  return {tensor.type, layout, as_int(tensor.n_rows()), as_int(tensor.row_elements()), nullptr};
}

std::size_t stored_bytes(const gguf::Tensor& tensor) {
  const op::Matrix m = stored_form(tensor);
  const std::size_t bytes = m.layout == op::Layout::rows ? tensor.n_bytes : cuda::planes_bytes(m);
  return align_up(bytes, kDeviceAlignment);
}

class Loader {
 public:
  Loader(Runtime& runtime, const gguf::Reader& file, cpu::Pool& pool,
         const Weights::LoadOptions& options, std::byte* memory, std::uint64_t total_bytes)
      : runtime_(runtime),
        file_(file),
        pool_(pool),
        options_(options),
        next_(memory),
        total_bytes_(total_bytes) {}

  Result<op::Matrix> matrix(const gguf::Tensor& tensor, bool /*is_head*/) {
    op::Matrix m = stored_form(tensor);
    m.data = next_;
    const int slice = slice_rows(tensor);
    for (int begin = 0; begin < m.n_out; begin += slice)
      ENGINE_TRY(copy_rows(tensor, m, begin, std::min(m.n_out, begin + slice)));
    next_ += stored_bytes(tensor);
    return m;
  }

  Result<const float*> vector(const gguf::Tensor& tensor) {
    ENGINE_ASSIGN(const op::Matrix m, matrix(tensor, false));
    return reinterpret_cast<const float*>(m.data);
  }

 private:
  // Whole groups.
  static int slice_rows(const gguf::Tensor& tensor) {
    const std::size_t groups = kSliceBytes / (cuda::kGroup * row_bytes(tensor));
    return cuda::kGroup * as_int(std::clamp<std::uint64_t>(groups, 1, tensor.n_rows()));
  }

  Status copy_rows(const gguf::Tensor& tensor, const op::Matrix& m, int begin, int end) {
    const std::size_t width = row_bytes(tensor),
                      bytes = static_cast<std::size_t>(end - begin) * width;
    rows_.resize(bytes);
    ENGINE_TRY(read_rows(file_, tensor, begin, end, options_.check_tensors, rows_));
    if (m.layout == op::Layout::rows)
      runtime_.upload(next_ + static_cast<std::size_t>(begin) * width, rows_.data(), bytes);
    else
      upload_groups(m, begin, end, width);
    done_bytes_ += bytes;
    if (options_.progress &&
        !options_.progress(static_cast<double>(done_bytes_) / static_cast<double>(total_bytes_)))
      return Status(Code::cancelled, "loading was cancelled");
    return {};
  }

  // Arranges rows begin..end-1 as a matrix of their own, whose groups are those of m from begin's on.
  void upload_groups(const op::Matrix& m, int begin, int end, std::size_t width) {
    op::Matrix part = m;
    part.n_out = end - begin;
    groups_.resize(cuda::planes_bytes(part));
    const int n_groups = (part.n_out + cuda::kGroup - 1) / cuda::kGroup;
    pool_.parallel_for(n_groups, kGroupsAPart, [&](int first, int last) {
      for (int g = first; g < last; ++g) {
        const int row = g * cuda::kGroup;
        cuda::pack_group(part, g, rows_.data() + static_cast<std::size_t>(row) * width,
                         std::min(cuda::kGroup, part.n_out - row), groups_.data());
      }
    });
    part.n_out = begin;
    runtime_.upload(next_ + cuda::planes_bytes(part), groups_.data(), groups_.size());
  }

  Runtime& runtime_;
  const gguf::Reader& file_;
  cpu::Pool& pool_;
  const Weights::LoadOptions& options_;
  std::byte* next_;  // where the next tensor goes
  std::uint64_t total_bytes_, done_bytes_ = 0;
  std::vector<std::byte> rows_, groups_;  // of a slice: as in the file, and as on the device
};

}  // namespace

Result<DeviceWeights> load_device_weights(Runtime& runtime, const gguf::Reader& file,
                                          const TensorTable& table, cpu::Pool& pool,
                                          const Weights::LoadOptions& options) {
  std::size_t n_bytes = 0;
  std::uint64_t file_bytes = 0;
  for (const gguf::Tensor* tensor : table.all()) {
    n_bytes += stored_bytes(*tensor);
    file_bytes += tensor->n_bytes;
  }
  DeviceWeights weights;
  ENGINE_ASSIGN(weights.memory, runtime.allocate(n_bytes));
  Loader loader(runtime, file, pool, options, weights.memory.get(), file_bytes);
  ENGINE_ASSIGN(weights.tensors, load_weights(loader, table));
  ENGINE_TRY(runtime.wait());
  return weights;
}

}  // namespace engine::ENGINE_DEVICE_NS
