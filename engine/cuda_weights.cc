#include "engine/cuda_weights.h"

#include <algorithm>
#include <mutex>
#include <vector>

#include "engine/load_weights.h"
#include "engine/tensor_rows.h"
#include "gguf/no_throw.h"

namespace engine::ENGINE_DEVICE_NS {
namespace {

constexpr std::size_t kAlignment = 256;       // of every tensor
constexpr std::size_t kSliceBytes = 4 << 20;  // read, arranged and uploaded at a time

int as_int(std::uint64_t value) { return static_cast<int>(value); }

// What a tensor becomes on the device, but for the place.
op::Matrix stored_form(const gguf::Tensor& tensor) {
  return {tensor.type, op::Layout::rows, as_int(tensor.n_rows()), as_int(tensor.row_elements()),
          nullptr};
}

std::size_t stored_bytes(const gguf::Tensor& tensor) {
  return (tensor.n_bytes + kAlignment - 1) / kAlignment * kAlignment;
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
    const int slice =
        as_int(std::clamp<std::uint64_t>(kSliceBytes / row_bytes(tensor), 1, tensor.n_rows()));
    for (int begin = 0; begin < m.n_out; begin += slice)
      ENGINE_TRY(copy_rows(tensor, begin, std::min(m.n_out, begin + slice)));
    next_ += stored_bytes(tensor);
    return m;
  }

  Result<const float*> vector(const gguf::Tensor& tensor) {
    ENGINE_ASSIGN(const op::Matrix m, matrix(tensor, false));
    return reinterpret_cast<const float*>(m.data);
  }

 private:
  Status copy_rows(const gguf::Tensor& tensor, int begin, int end) {
    const std::size_t width = row_bytes(tensor),
                      bytes = static_cast<std::size_t>(end - begin) * width;
    slice_.resize(bytes);
    ENGINE_TRY(read_rows(file_, tensor, begin, end, options_.check_tensors, slice_));
    runtime_.upload(next_ + static_cast<std::size_t>(begin) * width, slice_.data(), bytes);
    done_bytes_ += bytes;
    if (options_.progress &&
        !options_.progress(static_cast<double>(done_bytes_) / static_cast<double>(total_bytes_)))
      return Status(Code::cancelled, "loading was cancelled");
    return {};
  }

  Runtime& runtime_;
  const gguf::Reader& file_;
  [[maybe_unused]] cpu::Pool& pool_;
  const Weights::LoadOptions& options_;
  std::byte* next_;  // where the next tensor goes
  std::uint64_t total_bytes_, done_bytes_ = 0;
  std::vector<std::byte> slice_;
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
  return weights;
}

}  // namespace engine::ENGINE_DEVICE_NS
