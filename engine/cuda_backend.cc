#include "engine/cuda_backend.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "engine/align.h"
#include "engine/cuda_ops.h"
#include "engine/cuda_weights.h"
#include "engine/forward.h"
#include "engine/kv_cache.h"
#include "gguf/no_throw.h"

namespace engine::ENGINE_DEVICE_NS {
namespace {

constexpr std::size_t kMostSplitRows = 8;  // more have blocks enough without
constexpr int kMostSplits = 64;            // blocks of a (row, KV head)

// Device memory that grows when more is asked for.
class Scratch {
 public:
  explicit Scratch(Runtime& runtime) : runtime_(runtime) {}

  // At least n bytes; what they held is lost when they have to grow. Errors: out_of_memory.
  Result<std::byte*> reserve(std::size_t n) {
    if (n > n_bytes_) {
      n_bytes_ = 0;
      memory_.reset();  // before more is asked for
      ENGINE_ASSIGN(memory_, runtime_.allocate(n));
      n_bytes_ = n;
    }
    return memory_.get();
  }

 private:
  Runtime& runtime_;
  Slab memory_;
  std::size_t n_bytes_ = 0;
};

// What a pass is told, assembled on the host and uploaded as one piece.
class Parameters {
 public:
  // Room for n elements; returns where they begin.
  template <class T>
  std::size_t take(std::size_t n) {
    const std::size_t at = bytes_.size();
    bytes_.resize(at + align_up(n * sizeof(T), kDeviceAlignment));
    return at;
  }
  template <class T>
  T* host(std::size_t at) {
    return reinterpret_cast<T*>(bytes_.data() + at);
  }
  template <class T>
  std::size_t copy(std::span<const T> values) {
    const std::size_t at = take<T>(values.size());
    std::copy(values.begin(), values.end(), host<T>(at));
    return at;
  }
  void clear() { bytes_.clear(); }
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

template <class T>
const T* device(const std::byte* base, std::size_t at) {
  return reinterpret_cast<const T*>(base + at);
}

class CudaBackend : public Backend {
 public:
  CudaBackend(std::unique_ptr<Runtime> runtime, const Config& config, DeviceWeights weights)
      : runtime_(std::move(runtime)),
        config_(config),
        weights_(std::move(weights)),
        angles_(config),
        state_memory_(*runtime_),
        parameter_memory_(*runtime_),
        head_memory_(*runtime_),
        split_memory_(*runtime_) {}

  std::string name() const override { return runtime_->name(); }
  KvMemory& kv_memory() override { return *runtime_; }

  Status run_layers(std::span<const std::int32_t> tokens, std::span<const op::KvRow> rows,
                    std::span<const KvCache* const> caches, int n_wanted) override {
    n_rows_ = static_cast<int>(rows.size());
    n_wanted_ = n_wanted;
    ENGINE_TRY(reserve_state(n_rows_));
    ENGINE_TRY(split_attention(rows));
    ENGINE_ASSIGN(const Batch batch, upload_batch(tokens, rows, caches));
    CudaOps ops{runtime_->stream()};
    embed(ops, config_, weights_.tensors, batch, state_);
    layers(ops, config_, weights_.tensors, batch, state_, 0, weights_.tensors.layers.size());
    return {};
  }

  Result<const float*> hidden_rows() override {
    const std::size_t width = static_cast<std::size_t>(config_.d_model);
    hidden_.resize(static_cast<std::size_t>(n_rows_) * width);
    const std::size_t first = static_cast<std::size_t>(n_rows_ - n_wanted_) * width;
    ENGINE_TRY(download(hidden_.data() + first, state_.x + first,
                        (hidden_.size() - first) * sizeof(float)));
    return hidden_.data();
  }

  Status run_head(const float* hidden, int n_rows, float* logits) override {
    ENGINE_TRY(reserve_state(n_rows));
    const auto n = static_cast<std::size_t>(n_rows);
    const std::size_t hidden_bytes = n * static_cast<std::size_t>(config_.d_model) * sizeof(float),
                      logits_bytes = n * static_cast<std::size_t>(config_.n_vocab) * sizeof(float),
                      logits_at = align_up(hidden_bytes, kDeviceAlignment);
    ENGINE_ASSIGN(std::byte* const memory, head_memory_.reserve(logits_at + logits_bytes));
    auto* device_logits = reinterpret_cast<float*>(memory + logits_at);
    runtime_->upload(memory, hidden, hidden_bytes);
    CudaOps ops{runtime_->stream()};
    head(ops, config_, weights_.tensors, device<float>(memory, 0), n_rows, state_, device_logits);
    return download(logits, device_logits, logits_bytes);
  }

 private:
  Status reserve_state(int n_rows) {
    if (n_rows <= n_state_rows_) return {};
    n_state_rows_ = 0;
    ENGINE_ASSIGN(std::byte* const memory, state_memory_.reserve(state_bytes(config_, n_rows)));
    n_state_rows_ = n_rows;
    state_ = place_state(config_, n_rows, memory);
    return {};
  }

  // A pass that failed may have left arrivals uncounted: the next one makes new ones.
  Status download(void* to, const void* from, std::size_t n) {
    Status status = runtime_->download(to, from, n);
    if (!status.ok()) arrivals_.reset();
    return status;
  }

  // Blocks of their own for the tiles of a decode step's rows; a prompt's have work enough.
  Status split_attention(std::span<const op::KvRow> rows) {
    state_.attention_split = {};
    int last = 0, ahead = 0;
    for (const op::KvRow& row : rows) {
      last = std::max(last, row.attend_until);
      ahead = std::max(ahead, row.attend_until - row.pos);
    }
    const int max_tiles = last / op::kPage + 1;
    if (rows.size() > kMostSplitRows || max_tiles == 1) return {};
    const std::size_t n_heads = rows.size() * static_cast<std::size_t>(config_.n_heads),
                      n_sums = n_heads * static_cast<std::size_t>(max_tiles) * 2,
                      n_values = n_heads * static_cast<std::size_t>(max_tiles) *
                                 static_cast<std::size_t>(config_.head_dim);
    if (arrivals_ == nullptr) {  // zero before the first call, and kernels leave them so
      const std::vector<unsigned> zeros(kMostSplitRows * static_cast<std::size_t>(config_.n_heads));
      ENGINE_ASSIGN(arrivals_, runtime_->allocate(zeros.size() * sizeof zeros[0]));
      runtime_->upload(arrivals_.get(), zeros.data(), zeros.size() * sizeof zeros[0]);
    }
    ENGINE_ASSIGN(std::byte* const memory,
                  split_memory_.reserve((n_sums + n_values) * sizeof(float)));
    auto* const floats = reinterpret_cast<float*>(memory);
    state_.attention_split = {std::min(max_tiles, kMostSplits),
                              max_tiles,
                              ahead,
                              floats,
                              floats + n_sums,
                              reinterpret_cast<unsigned*>(arrivals_.get())};
    return {};
  }

  // The batch with everything it points to on the device.
  Result<Batch> upload_batch(std::span<const std::int32_t> tokens, std::span<const op::KvRow> rows,
                             std::span<const KvCache* const> caches) {
    // 1 rows and their angles
    const std::size_t half = static_cast<std::size_t>(config_.head_dim) / 2,
                      n_angles = rows.size() * half;
    parameters_.clear();
    const std::size_t tokens_at = parameters_.copy(tokens), rows_at = parameters_.copy(rows);
    std::size_t angles_at[4];
    for (std::size_t& at : angles_at) at = parameters_.take<float>(n_angles);
    const auto angles = [&](int i) { return parameters_.host<float>(angles_at[i]); };
    angles_.fill(rows, 0, static_cast<int>(rows.size()), {angles(0), angles(1)},
                 {angles(2), angles(3)});

    // 2 page tables: [n_layers, n_sequences] pointers to lists of pages
    const auto n_layers = static_cast<std::size_t>(config_.n_layers);
    const std::size_t tables_at = parameters_.take<std::byte*>(n_layers * caches.size());
    lists_at_.clear();
    for (std::size_t l = 0; l < n_layers; ++l)
      for (const KvCache* cache : caches)
        lists_at_.push_back(parameters_.copy(cache->pages(static_cast<int>(l))));

    // 3 addresses, once the memory is known
    ENGINE_ASSIGN(std::byte* const memory, parameter_memory_.reserve(parameters_.bytes().size()));
    for (std::size_t i = 0; i < lists_at_.size(); ++i)
      parameters_.host<std::byte*>(tables_at)[i] = memory + lists_at_[i];
    runtime_->upload(memory, parameters_.bytes().data(), parameters_.bytes().size());
    pages_.clear();
    for (std::size_t l = 0; l < n_layers; ++l)
      pages_.push_back({device<std::byte* const*>(memory, tables_at) + l * caches.size()});
    const auto table = [&](int i) { return reinterpret_cast<float*>(memory + angles_at[i]); };
    state_.rope_global = {table(0), table(1)};
    state_.rope_local = {table(2), table(3)};
    return Batch{{device<std::int32_t>(memory, tokens_at), tokens.size()},
                 {device<op::KvRow>(memory, rows_at), rows.size()},
                 caches.front()->shape(),
                 pages_,
                 n_wanted_};
  }

  std::unique_ptr<Runtime> runtime_;
  const Config& config_;
  DeviceWeights weights_;
  RopeAngles angles_;
  Scratch state_memory_, parameter_memory_, head_memory_, split_memory_;
  Slab arrivals_;  // of attention splits
  State state_ = {};
  int n_state_rows_ = 0;
  int n_rows_ = 0, n_wanted_ = 0;  // of the last run_layers()
  Parameters parameters_;
  std::vector<std::size_t> lists_at_;  // [n_layers, n_sequences], of page lists in the parameters
  std::vector<op::KvPages> pages_;     // [n_layers]
  std::vector<float> hidden_;
};

// On one of the pool's threads, as all work of the backend. open: Result<std::unique_ptr<Runtime>>().
template <class Open>
Result<std::unique_ptr<Backend>> load_backend(const Open& open, const Config& config,
                                              const gguf::Reader& file, const TensorTable& table,
                                              cpu::Pool& pool,
                                              const Weights::LoadOptions& options) {
  std::unique_ptr<Backend> backend;
  const auto load = [&]() -> Status {
    ENGINE_ASSIGN(std::unique_ptr<Runtime> runtime, open());
    ENGINE_ASSIGN(DeviceWeights weights, load_device_weights(*runtime, file, table, pool, options));
    backend = std::make_unique<CudaBackend>(std::move(runtime), config, std::move(weights));
    return {};
  };
  Status status;
  ENGINE_TRY(pool.run([&] { status = no_throw(load); }));
  ENGINE_TRY(std::move(status));
  return backend;
}

}  // namespace
}  // namespace engine::ENGINE_DEVICE_NS

namespace engine {

#if defined(ENGINE_DEVICE_SIMT)
Result<std::unique_ptr<Backend>> load_simt_backend(const Config& config, const gguf::Reader& file,
                                                   const TensorTable& table, cpu::Pool& pool,
                                                   const Weights::LoadOptions& options) {
  const auto open = []() -> Result<std::unique_ptr<simt::Runtime>> {
    return std::make_unique<simt::Runtime>(simt::RuntimeOptions());
  };
  return simt::load_backend(open, config, file, table, pool, options);
}
#else
Result<std::unique_ptr<Backend>> load_cuda_backend(std::string_view card, const Config& config,
                                                   const gguf::Reader& file,
                                                   const TensorTable& table, cpu::Pool& pool,
                                                   const Weights::LoadOptions& options) {
  const auto open = [&] { return cuda::Runtime::open(card, cuda::cuda_calls()); };
  return cuda::load_backend(open, config, file, table, pool, options);
}
#endif

}  // namespace engine
