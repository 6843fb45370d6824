#include "engine/config.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <sstream>
#include <string_view>
#include <utility>

#include "gguf/file_error.h"

namespace engine {
namespace {

using gguf::file_error;
using gguf::printable;

// Above every published Gemma 3, and small enough for products of two of them to fit in 64 bits.
constexpr std::uint32_t kMaxLayers = 256;
constexpr std::uint32_t kMaxWidth = 1u << 20;
constexpr std::uint32_t kMaxHeads = 1024;
constexpr std::uint32_t kMaxHeadDim = 1024;
constexpr std::uint32_t kMaxContext = 1u << 24;  // positions stay exact in fp32
constexpr std::uint64_t kMaxVocab = 1u << 24;
constexpr std::uint32_t kAnyU32 = std::numeric_limits<std::uint32_t>::max();

constexpr float kDefaultRmsEps = 1e-6f;
constexpr float kDefaultRopeBaseGlobal = 1e6f;
constexpr float kDefaultRopeBaseLocal = 1e4f;
constexpr std::uint32_t kDefaultHeadDim = 256;
constexpr std::uint32_t kDefaultPattern = 6;  // five local layers, then a global one

constexpr int kLayersOf27B = 62;
constexpr int kQueryWidthOf27B = 168;

// 270M and 1B (18 and 26 layers) look back 512 positions, the larger models 1024.
std::uint32_t default_window(int n_layers) { return n_layers <= 26 ? 512 : 1024; }

template <class T>
std::string text_of(T value) {
  std::ostringstream text;
  text.imbue(std::locale::classic());
  text << value;
  return text.str();
}

Status out_of_range(std::string_view key, const std::string& value, const std::string& expected) {
  return file_error(Detail::hparam,
                    std::string(key) + " is " + value + ", but must be " + expected);
}

template <class T>
struct Range {
  T min, max;  // both allowed; NaN is in no range
};

template <class T>
std::string text_of(Range<T> range) {
  if (!(range.min < range.max)) return text_of(range.max);
  return "from " + text_of(range.min) + " to " + text_of(range.max);
}

// Reads keys below "gemma3." and notes every default that stands in for one.
class Keys {
 public:
  Keys(const gguf::Reader& file, std::vector<std::string>& notes) : file_(file), notes_(notes) {}

  bool has(std::string_view key) const { return file_.find(full(key)) != nullptr; }

  template <class T>
  Result<T> require(std::string_view key, Range<T> range) const {
    const std::string full_key = full(key);
    ENGINE_ASSIGN(const T value, file_.get<T>(full_key));
    if (!(value >= range.min && value <= range.max))
      return out_of_range(full_key, text_of(value), text_of(range));
    return value;
  }

  template <class T>
  Result<T> require_or(std::string_view key, Range<T> range, T fallback) {
    if (has(key)) return require(key, range);
    notes_.push_back(full(key) + " is missing; using " + text_of(fallback));
    return fallback;
  }

  Result<int> integer(std::string_view key, std::uint32_t max) const {
    ENGINE_ASSIGN(const std::uint32_t value, require<std::uint32_t>(key, {1, max}));
    return static_cast<int>(value);
  }

  const gguf::Reader& file() const { return file_; }
  static std::string full(std::string_view key) { return "gemma3." + std::string(key); }

 private:
  const gguf::Reader& file_;
  std::vector<std::string>& notes_;
};

Status check_architecture(const gguf::Reader& file) {
  ENGINE_ASSIGN(const std::string_view arch, file.get<std::string_view>("general.architecture"));
  if (arch == "gemma3") return {};
  return file_error(Detail::arch,
                    "architecture \"" + printable(arch) + "\" is not supported; gemma3 is");
}

Status read_vocabulary_size(const gguf::Reader& file, Config& config) {
  const gguf::Tensor* embedding = file.find_tensor("token_embd.weight");
  if (embedding == nullptr)
    return file_error(Detail::missing, "tensor \"token_embd.weight\" is missing");
  if (embedding->dims[1] > kMaxVocab)
    return file_error(Detail::vocab, "token_embd.weight has " + std::to_string(embedding->dims[1]) +
                                         " rows, more than the limit of " +
                                         std::to_string(kMaxVocab));
  config.n_vocab = static_cast<int>(embedding->dims[1]);
  return {};
}

Status read_sizes(Keys& keys, Config& config) {
  ENGINE_ASSIGN(config.n_layers, keys.integer("block_count", kMaxLayers));
  ENGINE_ASSIGN(config.d_model, keys.integer("embedding_length", kMaxWidth));
  ENGINE_ASSIGN(config.d_ff, keys.integer("feed_forward_length", kMaxWidth));
  // A longer context than positions can be exact in is cut: memory bounds it long before.
  ENGINE_ASSIGN(const auto context, keys.require<std::uint32_t>("context_length", {1, kAnyU32}));
  config.n_ctx_train = static_cast<int>(std::min(context, kMaxContext));
  ENGINE_ASSIGN(config.rms_eps, keys.require_or<float>("attention.layer_norm_rms_epsilon",
                                                       {1e-12f, 1e-2f}, kDefaultRmsEps));
  return {};
}

Status read_heads(Keys& keys, Config& config) {
  ENGINE_ASSIGN(config.n_heads, keys.integer("attention.head_count", kMaxHeads));
  ENGINE_ASSIGN(config.n_kv_heads, keys.integer("attention.head_count_kv", kMaxHeads));
  if (config.n_heads % config.n_kv_heads != 0)
    return out_of_range("gemma3.attention.head_count_kv", text_of(config.n_kv_heads),
                        "a divisor of the " + text_of(config.n_heads) + " query heads");

  ENGINE_ASSIGN(
      const auto head_dim,
      keys.require_or<std::uint32_t>("attention.key_length", {2, kMaxHeadDim}, kDefaultHeadDim));
  if (head_dim % 2 != 0)
    return out_of_range("gemma3.attention.key_length", text_of(head_dim), "even");
  ENGINE_ASSIGN(
      const auto value_dim,
      keys.require_or<std::uint32_t>("attention.value_length", {head_dim, head_dim}, head_dim));
  config.head_dim = static_cast<int>(value_dim);

  config.query_width = config.n_layers == kLayersOf27B ? kQueryWidthOf27B : config.head_dim;
  return {};
}

Result<std::vector<bool>> local_layers_from_array(const Keys& keys, std::string_view key,
                                                  int n_layers) {
  ENGINE_ASSIGN(std::vector<bool> is_local, keys.file().get_array<bool>(Keys::full(key)));
  if (!std::cmp_equal(is_local.size(), n_layers))
    return file_error(Detail::hparam, Keys::full(key) + " has " + std::to_string(is_local.size()) +
                                          " elements, but the model has " +
                                          std::to_string(n_layers) + " layers");
  return is_local;
}

Result<std::vector<bool>> local_layers(Keys& keys, int n_layers) {
  constexpr std::string_view kKey = "attention.sliding_window_pattern";
  const gguf::KeyValue* entry = keys.file().find(Keys::full(kKey));
  if (entry != nullptr && entry->is_array) return local_layers_from_array(keys, kKey, n_layers);

  std::uint32_t pattern = kDefaultPattern;  // no note: converters do not write this key
  if (entry != nullptr) {
    ENGINE_ASSIGN(pattern, keys.require<std::uint32_t>(kKey, {1, kAnyU32}));
  }
  std::vector<bool> is_local;
  for (std::uint32_t l = 0; std::cmp_less(l, n_layers); ++l)
    is_local.push_back((l + 1) % pattern != 0);
  return is_local;
}

Status read_window(Keys& keys, Config& config) {
  ENGINE_ASSIGN(config.is_local, local_layers(keys, config.n_layers));
  ENGINE_ASSIGN(const auto window,
                keys.require_or<std::uint32_t>("attention.sliding_window", {1, kAnyU32},
                                               default_window(config.n_layers)));
  // A window beyond the context is full attention.
  config.window =
      static_cast<int>(std::min(window, static_cast<std::uint32_t>(config.n_ctx_train)));
  return {};
}

Result<double> scaling_factor(const Keys& keys) {
  constexpr std::string_view kTypeKey = "rope.scaling.type", kFactorKey = "rope.scaling.factor";
  ENGINE_ASSIGN(const std::string_view type,
                keys.file().get_or<std::string_view>(Keys::full(kTypeKey), "linear"));
  if (type != "linear" && type != "none")
    return file_error(Detail::unsupported, Keys::full(kTypeKey) + " \"" + printable(type) +
                                               "\" is not supported; linear and none are");
  if (!keys.has(kFactorKey)) return 1.0;
  ENGINE_ASSIGN(const float factor, keys.require<float>(kFactorKey, {1.0f, 1e6f}));
  return type == "linear" ? double{factor} : 1.0;
}

Status check_rotated_dims(const Keys& keys, int head_dim) {
  constexpr std::string_view kKey = "rope.dimension_count";
  if (!keys.has(kKey)) return {};
  ENGINE_ASSIGN(const auto n_rotated,
                keys.require<std::uint32_t>(kKey, {2, static_cast<std::uint32_t>(head_dim)}));
  if (n_rotated % 2 != 0) return out_of_range(Keys::full(kKey), text_of(n_rotated), "even");
  if (std::cmp_not_equal(n_rotated, head_dim))
    return file_error(Detail::unsupported, Keys::full(kKey) + " is " + text_of(n_rotated) +
                                               ": rotating part of a head of " + text_of(head_dim) +
                                               " is not supported");
  return {};
}

Status read_rope(Keys& keys, Config& config) {
  constexpr Range<float> kBases = {1.0f, 1e12f};
  ENGINE_ASSIGN(config.rope_base_global,
                keys.require_or("rope.freq_base", kBases, kDefaultRopeBaseGlobal));
  // Two spellings are in use. Most files have neither: every Gemma 3 so far uses the default, so
  // its use is not worth a note.
  config.rope_base_local = kDefaultRopeBaseLocal;
  for (const std::string_view key : {"rope.local.freq_base", "rope.freq_base_swa"})
    if (keys.has(key)) {
      ENGINE_ASSIGN(config.rope_base_local, keys.require(key, kBases));
    }
  ENGINE_ASSIGN(config.rope_factor_global, scaling_factor(keys));
  return check_rotated_dims(keys, config.head_dim);
}

// Gemma 2 squashed logits; in Gemma 3 the keys are absent or 0.
Status check_no_softcap(const Keys& keys) {
  for (const std::string_view key : {"final_logit_softcapping", "attn_logit_softcapping"}) {
    if (!keys.has(key)) continue;
    ENGINE_ASSIGN(const float cap,
                  keys.require<float>(key, {0.0f, std::numeric_limits<float>::max()}));
    if (cap > 0)
      return file_error(Detail::unsupported, Keys::full(key) + " is " + text_of(cap) +
                                                 ", but soft-capping is not supported");
  }
  return {};
}

}  // namespace

Result<Config> Config::from_file(const gguf::Reader& file) {
  Config config;
  Keys keys(file, config.notes);
  ENGINE_TRY(check_architecture(file));
  ENGINE_ASSIGN(const std::string_view name, file.get_or<std::string_view>("general.name", ""));
  config.name = name;
  // Only its type is of interest: the tensors say what they are stored as.
  ENGINE_TRY(file.get_or<std::uint32_t>("general.file_type", 0).status());
  ENGINE_TRY(read_sizes(keys, config));
  ENGINE_TRY(read_heads(keys, config));
  ENGINE_TRY(read_window(keys, config));
  ENGINE_TRY(read_rope(keys, config));
  ENGINE_TRY(check_no_softcap(keys));
  ENGINE_TRY(read_vocabulary_size(file, config));
  return config;
}

}  // namespace engine
