#include "engine/cuda_backend.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <string>
#include <vector>

#include "engine/align.h"
#include "engine/arena.h"
#include "engine/cuda_ops.h"
#include "engine/cuda_weights.h"
#include "engine/forward.h"
#include "engine/kv_cache.h"
#include "engine/placer.h"
#include "gguf/no_throw.h"
#include "kernels/op/head_logits.h"

namespace engine::ENGINE_DEVICE_NS {
namespace {

constexpr int kMostRows = 512;  // of a pass
constexpr std::size_t kMostChoices = Backend::kMostChoices;
constexpr int kMostSplitRows = 8;                               // more have blocks enough without
constexpr int kMostSplits = 64;                                 // blocks of a (row, KV head)
constexpr std::size_t kMostSplitBytes = std::size_t{64} << 20;  // of partial attention results
constexpr int kDefaultSequences = 4;  // of full length, that the KV memory holds
constexpr std::size_t kLeastKvBytes = std::size_t{16} << 20;

std::size_t pages_for(int n) { return static_cast<std::size_t>(op::n_pages(n)); }

// The device memory of passes, taken once. What kernels are to find written is in Parameters and Controls.
struct Scratch {
  State state;
  float* logits;  // [kMostHeadRows, n_vocab]
  // Of top_logits() and sample().
  op::LogitSpan* spans;
  std::int32_t* ids;
  float* values;
  std::uint32_t* non_finite;
  op::Choice* choices;
  float* splits;  // partial attention results
};

Scratch place_scratch(const Config& c, std::size_t split_bytes, Placer& placer) {
  const auto n_vocab = static_cast<std::size_t>(c.n_vocab);
  Scratch s;
  s.state = place_state(c, kMostRows, placer);
  s.logits = placer.take<float>(Backend::kMostHeadRows * n_vocab);
  s.spans = placer.take<op::LogitSpan>(
      kMostChoices * static_cast<std::size_t>(op::n_logit_spans(c.n_vocab, op::kLeastLogitSpan)));
  s.ids = placer.take<std::int32_t>(kMostChoices * op::kMaxTopLogits);
  s.values = placer.take<float>(kMostChoices * op::kMaxTopLogits);
  s.non_finite = placer.take<std::uint32_t>(kMostChoices);
  s.choices = placer.take<op::Choice>(kMostChoices);
  s.splits = placer.take<float>(split_bytes / sizeof(float));
  return s;
}

// Bytes of the partial results of a row whose keys lie in so many tiles.
std::size_t split_bytes(const Config& c, std::size_t n_tiles) {
  return static_cast<std::size_t>(c.n_heads) * n_tiles *
         (static_cast<std::size_t>(c.head_dim) + 2) * sizeof(float);
}

// What a pass is told: the same pieces in host memory, where they are written, and on the device. For the
// same numbers of rows and sequences they lie at the same addresses; only the lists' ends move.
struct Parameters {
  std::int32_t* tokens;               // [n_rows]
  op::KvRow* rows;                    // [n_rows]
  RopeTable rope_global, rope_local;  // [n_rows, head_dim / 2]
  std::byte* const** tables;          // [n_layers, n_sequences], of lists of pages
  std::byte** pages;                  // [n_pages], the lists
};

Parameters place_parameters(const Config& c, std::size_t n_rows, std::size_t n_sequences,
                            std::size_t n_pages, Placer& placer) {
  const auto half = static_cast<std::size_t>(c.head_dim) / 2;
  Parameters p;
  p.tokens = placer.take<std::int32_t>(n_rows);
  p.rows = placer.take<op::KvRow>(n_rows);
  for (RopeTable* table : {&p.rope_global, &p.rope_local}) {
    table->cos = placer.take<float>(n_rows * half);
    table->sin = placer.take<float>(n_rows * half);
  }
  p.tables = placer.take<std::byte* const*>(static_cast<std::size_t>(c.n_layers) * n_sequences);
  p.pages = placer.take<std::byte*>(n_pages);
  return p;
}

// The same for every pass.
struct Controls {
  unsigned* attention_arrivals;  // [kMostSplitRows, n_heads]; 0 between passes
  op::Draw* draws;               // [kMostChoices] of choose()
};

Controls place_controls(const Config& c, Placer& placer) {
  Controls controls;
  controls.attention_arrivals =
      placer.take<unsigned>(kMostSplitRows * static_cast<std::size_t>(c.n_heads));
  controls.draws = placer.take<op::Draw>(kMostChoices);
  return controls;
}

// Page-list entries of all sequences that a KV memory of so many bytes can hold, at most: each entry's
// positions have a page in every global layer.
std::size_t most_pages(const Config& c, std::size_t kv_bytes) {
  const auto n_layers = static_cast<std::size_t>(c.n_layers);
  const auto n_global =
      static_cast<std::size_t>(std::count(c.is_local.begin(), c.is_local.end(), false));
  const std::size_t all = kMostRows * pages_for(c.n_ctx_train);
  if (n_global == 0) return n_layers * all;
  const op::KvShape smallest = {c.n_kv_heads, c.head_dim, op::KvType::f16};
  return n_layers * std::min(all, kv_bytes / (smallest.page_bytes() * n_global));
}

class CudaBackend : public Backend {
 public:
  CudaBackend(std::unique_ptr<Runtime> runtime, const Config& config, cpu::Pool& pool,
              DeviceWeights weights)
      : pool_(pool),
        runtime_(std::move(runtime)),
        config_(config),
        weights_(std::move(weights)),
        angles_(config) {}
  // On the thread of all other work, if it is still there.
  ~CudaBackend() override {
    (void)pool_.run([this] { give_back(); });
    give_back();
  }

  // Takes all memory that serving needs. Errors: out_of_memory, device.
  Status take_memory(std::size_t kv_bytes) {
    const std::size_t tiles = std::bit_ceil(pages_for(config_.n_ctx_train));
    split_bytes_ = std::clamp(kMostSplitBytes, split_bytes(config_, tiles),
                              kMostSplitRows * split_bytes(config_, tiles));
    ENGINE_TRY(allocate(scratch_memory_, [&](Placer& placer) {
      scratch_ = place_scratch(config_, split_bytes_, placer);
    }));
    ENGINE_TRY(allocate(control_memory_, [&](Placer& placer) {
      controls_ = place_controls(config_, placer);
      zeros_.resize(placer.n_bytes());
    }));
    ENGINE_ASSIGN(host_controls_, runtime_->allocate_host(sizeof(HostControls)));

    if (kv_bytes == 0) kv_bytes = default_kv_bytes();
    ENGINE_ASSIGN(Slab kv, runtime_->allocate(kv_bytes));
    kv_memory_.emplace("the KV memory (ModelOptions::kv_bytes)", std::move(kv), kv_bytes);

    // Enough for any sequences that the KV memory can hold.
    ENGINE_TRY(allocate(parameter_memory_, [&](Placer& placer) {
      place_parameters(config_, kMostRows, kMostRows, most_pages(config_, kv_bytes), placer);
      parameter_bytes_ = placer.n_bytes();
    }));
    ENGINE_ASSIGN(host_parameters_, runtime_->allocate_host(parameter_bytes_));
    return {};
  }

  std::string name() const override { return runtime_->name(); }
  int most_rows() const override { return kMostRows; }
  KvMemory& kv_memory() override { return *kv_memory_; }

  Status run_layers(std::span<const std::int32_t> tokens, std::span<const op::KvRow> rows,
                    std::span<const KvCache* const> caches, int n_wanted) override {
    ENGINE_TRY(prepare());
    split_attention(rows);
    ENGINE_ASSIGN(const Batch batch, send_batch(tokens, rows, caches, n_wanted));
    CudaOps ops{runtime_->stream()};
    embed(ops, config_, weights_.tensors, batch, scratch_.state);
    layers(ops, config_, weights_.tensors, batch, scratch_.state, 0,
           weights_.tensors.layers.size());
    return {};
  }

  const float* hidden_rows() const override { return scratch_.state.x; }
  void keep_hidden(const float* row, float* to) override {
    is_busy_ = true;
    runtime_->copy(to, row, static_cast<std::size_t>(config_.d_model) * sizeof(float));
  }
  Status wait() override { return is_busy_ ? finished(runtime_->wait()) : Status(); }

  Status run_head(const float* hidden, int n_rows, float* logits) override {
    is_busy_ = true;
    CudaOps ops{runtime_->stream()};
    head(ops, config_, weights_.tensors, hidden, n_rows, scratch_.state, scratch_.logits);
    return download(logits, scratch_.logits,
                    static_cast<std::size_t>(n_rows) * static_cast<std::size_t>(config_.n_vocab) *
                        sizeof(float));
  }

  int most_candidates() const override { return op::kMaxTopLogits; }
  Status choose(const float* hidden_rows, int n_rows, int k, int n_ids,
                std::span<const op::Draw> draws, std::span<op::Choice> choices) override {
    HostControls& host = *reinterpret_cast<HostControls*>(host_controls_.get());
    std::copy(draws.begin(), draws.end(), host.draws);
    runtime_->send(reinterpret_cast<std::byte*>(controls_.draws), host.draws, draws.size_bytes());
    // head() of forward.h; for one row with the search for the best logits begun in its matmul
    is_busy_ = true;
    const Weights& w = weights_.tensors;
    const Scratch& s = scratch_;
    Stream& stream = runtime_->stream();
    CudaOps ops{stream};
    const Activations& x = s.state.normed;
    norm(ops, config_, hidden_rows, w.output_norm, scratch_.state.normed, n_rows, Reads(w.output));
    int span = 0;
    if (n_rows == 1)
      span = head_logits({{w.output, x.x, x.quantized, s.logits, 1}, n_ids, s.spans}, stream);
    else
      project(ops, x, n_rows, {{w.output, s.logits}});
    top_logits(
        {s.logits, s.ids, s.values, s.non_finite, n_rows, config_.n_vocab, n_ids, k, s.spans, span},
        stream);
    sample({s.values, s.ids, s.non_finite, controls_.draws, s.choices, n_rows, k}, stream);
    ENGINE_TRY(download(host.choices, s.choices, choices.size_bytes()));
    std::copy_n(host.choices, choices.size(), choices.begin());
    return {};
  }

 private:
  struct HostControls {
    op::Draw draws[kMostChoices];
    op::Choice choices[kMostChoices];
  };

  // What place(Placer&) places; called twice, first to count.
  template <class Place>
  Status allocate(Slab& memory, const Place& place) {
    Placer counter(nullptr);
    place(counter);
    ENGINE_ASSIGN(memory, runtime_->allocate(counter.n_bytes()));
    Placer placer(memory.get());
    place(placer);
    return {};
  }

  void give_back() {
    kv_memory_.reset();
    for (Slab* slab : {&scratch_memory_, &control_memory_, &host_controls_, &parameter_memory_,
                       &host_parameters_, &weights_.memory})
      slab->reset();
    runtime_.reset();
  }

  std::size_t default_kv_bytes() const {
    const std::size_t wanted =
        kDefaultSequences *
        (KvCache::most_bytes(config_, op::KvType::f16, kMostRows) +
         align_up(static_cast<std::size_t>(config_.d_model) * sizeof(float), kDeviceAlignment));
    return align_down(std::min(std::max(wanted, kLeastKvBytes), runtime_->free_bytes() / 2),
                      kDeviceAlignment);
  }

  // Before a pass: nothing else is at work, and what kernels count with is 0.
  Status prepare() {
    ENGINE_TRY(wait());
    is_busy_ = true;
    if (has_counters_) return {};
    runtime_->upload(control_memory_.get(), zeros_.data(), zeros_.size());
    has_counters_ = true;
    return {};
  }
  // A pass that failed may have left counters that are not 0.
  Status finished(Status status) {
    is_busy_ = false;
    if (!status.ok()) has_counters_ = false;
    return status;
  }
  Status download(void* to, const void* from, std::size_t n) {
    return finished(runtime_->download(to, from, n));
  }

  // Blocks of their own for the tiles of a decode step's rows; a prompt's have work enough. Rounded up,
  // so that most steps launch what the one before has launched.
  void split_attention(std::span<const op::KvRow> rows) {
    scratch_.state.attention_split = {};
    int last = 0, ahead = 0;
    for (const op::KvRow& row : rows) {
      last = std::max(last, row.attend_until);
      ahead = std::max(ahead, row.attend_until - row.pos);
    }
    const std::size_t max_tiles = std::bit_ceil(pages_for(last + 1)),
                      n_heads = rows.size() * static_cast<std::size_t>(config_.n_heads);
    if (rows.size() > kMostSplitRows || max_tiles == 1 ||
        rows.size() * split_bytes(config_, max_tiles) > split_bytes_)
      return;
    const int n_tiles = static_cast<int>(max_tiles);
    scratch_.state.attention_split = {std::min(n_tiles, kMostSplits),
                                      n_tiles,
                                      ahead,
                                      scratch_.splits,
                                      scratch_.splits + n_heads * max_tiles * 2,
                                      controls_.attention_arrivals};
  }

  // The batch with everything it points to on the device.
  Result<Batch> send_batch(std::span<const std::int32_t> tokens, std::span<const op::KvRow> rows,
                           std::span<const KvCache* const> caches, int n_wanted) {
    // 1 where things lie
    const int n_layers = config_.n_layers;
    std::size_t n_pages = 0;
    for (const KvCache* cache : caches)
      for (int l = 0; l < n_layers; ++l) n_pages += cache->pages(l).size();
    const auto place = [&](const Slab& memory, std::size_t& n_bytes) {
      Placer placer(memory.get());
      const Parameters p = place_parameters(config_, rows.size(), caches.size(), n_pages, placer);
      n_bytes = placer.n_bytes();
      return p;
    };
    std::size_t n_bytes = 0;
    const Parameters host = place(host_parameters_, n_bytes),
                     device = place(parameter_memory_, n_bytes);
    if (rows.size() > kMostRows || n_bytes > parameter_bytes_)
      return Status(Code::internal, "a pass of " + std::to_string(n_bytes) +
                                        " bytes of parameters, expected at most " +
                                        std::to_string(parameter_bytes_));
    // 2 rows and their angles
    std::copy(tokens.begin(), tokens.end(), host.tokens);
    std::copy(rows.begin(), rows.end(), host.rows);
    pool_.parallel_for(static_cast<int>(rows.size()), RopeAngles::kRowsAPart,
                       [&](int begin, int end) {
                         angles_.fill(rows, begin, end, host.rope_global, host.rope_local);
                       });
    // 3 pages
    std::size_t at = 0, table = 0;
    kv_pages_.clear();
    for (int l = 0; l < n_layers; ++l) {
      kv_pages_.push_back({device.tables + table});
      for (const KvCache* cache : caches) {
        host.tables[table++] = device.pages + at;
        at = static_cast<std::size_t>(
            std::copy(cache->pages(l).begin(), cache->pages(l).end(), host.pages + at) -
            host.pages);
      }
    }
    runtime_->send(parameter_memory_.get(), host_parameters_.get(), n_bytes);
    scratch_.state.rope_global = device.rope_global;
    scratch_.state.rope_local = device.rope_local;
    return Batch{{device.tokens, tokens.size()},
                 {device.rows, rows.size()},
                 caches.front()->shape(),
                 kv_pages_,
                 n_wanted};
  }

  cpu::Pool& pool_;
  std::unique_ptr<Runtime> runtime_;
  const Config& config_;
  DeviceWeights weights_;
  RopeAngles angles_;
  Slab scratch_memory_, control_memory_, host_controls_, parameter_memory_, host_parameters_;
  std::optional<Arena> kv_memory_;
  Scratch scratch_ = {};
  Controls controls_ = {};
  std::size_t split_bytes_ = 0, parameter_bytes_ = 0;
  std::vector<std::byte> zeros_;       // of the controls
  bool has_counters_ = false;          // the controls' are 0
  bool is_busy_ = false;               // something was begun and not waited for
  std::vector<op::KvPages> kv_pages_;  // [n_layers]
};

// On one of the pool's threads, as all work of the backend. open: Result<std::unique_ptr<Runtime>>().
template <class Open>
Result<std::unique_ptr<Backend>> load_backend(const Open& open, const Config& config,
                                              const gguf::Reader& file, const TensorTable& table,
                                              cpu::Pool& pool, const Weights::LoadOptions& options,
                                              std::size_t kv_bytes) {
  std::unique_ptr<CudaBackend> backend;
  const auto load = [&]() -> Status {
    ENGINE_ASSIGN(std::unique_ptr<Runtime> runtime, open());
    ENGINE_ASSIGN(DeviceWeights weights, load_device_weights(*runtime, file, table, pool, options));
    backend = std::make_unique<CudaBackend>(std::move(runtime), config, pool, std::move(weights));
    return backend->take_memory(kv_bytes);
  };
  Status status;
  ENGINE_TRY(pool.run([&] { status = no_throw(load); }));
  ENGINE_TRY(std::move(status));
  return std::unique_ptr<Backend>(std::move(backend));
}

}  // namespace
}  // namespace engine::ENGINE_DEVICE_NS

namespace engine {

#if defined(ENGINE_DEVICE_SIMT)
Result<std::unique_ptr<Backend>> load_simt_backend(const Config& config, const gguf::Reader& file,
                                                   const TensorTable& table, cpu::Pool& pool,
                                                   const Weights::LoadOptions& options,
                                                   std::size_t kv_bytes) {
  const auto open = []() -> Result<std::unique_ptr<simt::Runtime>> {
    return std::make_unique<simt::Runtime>(simt::RuntimeOptions());
  };
  return simt::load_backend(open, config, file, table, pool, options, kv_bytes);
}
#else
Result<std::unique_ptr<Backend>> load_cuda_backend(std::string_view card, const Config& config,
                                                   const gguf::Reader& file,
                                                   const TensorTable& table, cpu::Pool& pool,
                                                   const Weights::LoadOptions& options,
                                                   std::size_t kv_bytes) {
  const auto open = [&] { return cuda::Runtime::open(card, cuda::cuda_calls()); };
  return cuda::load_backend(open, config, file, table, pool, options, kv_bytes);
}
#endif

}  // namespace engine
