#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>

#include "engine/cpu_backend.h"
#include "engine/cuda_backend.h"
#include "engine/model_impl.h"
#include "engine/sampler.h"
#include "gguf/no_throw.h"
#include "tokenizer/spm.h"

namespace engine {
namespace {

constexpr int kMaxThreads = 256;

Status unknown_isa() {
  const char* wanted = std::getenv("ENGINE_CPU_ISA");
  std::string have;
  for (const cpu::Isa isa : cpu::supported_isas())
    have += (have.empty() ? "" : ", ") + std::string(cpu::name(isa));
  return Status(Code::invalid_argument,
                "the environment's ENGINE_CPU_ISA is \"" +
                    gguf::printable(wanted != nullptr ? wanted : "") +
                    "\", expected an instruction set that this machine runs: " + have);
}

Result<std::unique_ptr<cpu::Pool>> make_pool(const ModelOptions& options) {
  if (options.n_threads < 0)
    return Status(Code::invalid_argument,
                  "n_threads: expected 0 or more, got " + std::to_string(options.n_threads));
  const std::optional<cpu::Isa> isa = cpu::isa_from_environment();
  if (!isa) return unknown_isa();
  const int most = std::min(cpu::most_threads(), kMaxThreads);
  if (options.n_threads == 0)
    return std::make_unique<cpu::Pool>(std::min(cpu::default_threads(), most), *isa);
  if (options.log && options.n_threads > most)
    options.log(LogLevel::warning,
                std::to_string(options.n_threads) + " threads are more than " +
                    (most == kMaxThreads ? "the engine runs" : "this process may run at a time") +
                    ": " + std::to_string(most) + " are used");
  return std::make_unique<cpu::Pool>(std::min(options.n_threads, most), *isa);
}

// "Q8_0 73 %, Q5_0 18 %", by share of the bytes.
std::string describe_types(const gguf::Reader& file) {
  std::map<std::string_view, std::uint64_t> bytes;
  std::uint64_t total = 0;
  for (const gguf::Tensor& tensor : file.tensors()) {
    bytes[name(tensor.type)] += tensor.n_bytes;
    total += tensor.n_bytes;
  }
  std::vector<std::pair<std::uint64_t, std::string_view>> shares;
  for (const auto& [type, n] : bytes) shares.emplace_back(n, type);
  std::sort(shares.rbegin(), shares.rend());
  std::string text;
  for (const auto& [n, type] : shares) {
    if (!text.empty()) text += ", ";
    text += std::string(type) + " " + std::to_string((n * 100 + total / 2) / total) + " %";
  }
  return text;
}

ModelInfo describe(const gguf::Reader& file, const Config& config, const tokenizer::Vocab& vocab) {
  ModelInfo info;
  info.name = config.name;
  info.types = describe_types(file);
  for (const gguf::Tensor& tensor : file.tensors()) {
    info.n_parameters += tensor.row_elements() * tensor.n_rows();
    info.weight_bytes += tensor.n_bytes;
  }
  info.n_layers = config.n_layers;
  info.d_model = config.d_model;
  info.n_heads = config.n_heads;
  info.n_kv_heads = config.n_kv_heads;
  info.head_dim = config.head_dim;
  info.d_ff = config.d_ff;
  info.n_vocab = config.n_vocab;
  info.n_ctx_train = config.n_ctx_train;
  info.window = config.window;
  info.bos = vocab.bos();
  info.eos = vocab.eos();
  return info;
}

// Gemma's settings, overridden by the file's general.sampling.*.
Result<SamplerOptions> file_sampler(const gguf::Reader& file) {
  SamplerOptions s;
  ENGINE_ASSIGN(s.temperature, file.get_or<float>("general.sampling.temp", s.temperature));
  ENGINE_ASSIGN(s.top_k, file.get_or<std::int32_t>("general.sampling.top_k", s.top_k));
  ENGINE_ASSIGN(s.top_p, file.get_or<float>("general.sampling.top_p", s.top_p));
  ENGINE_ASSIGN(s.min_p, file.get_or<float>("general.sampling.min_p", s.min_p));
  ENGINE_ASSIGN(s.repeat_penalty,
                file.get_or<float>("general.sampling.penalty_repeat", s.repeat_penalty));
  ENGINE_ASSIGN(s.penalty_window,
                file.get_or<std::int32_t>("general.sampling.penalty_last_n", s.penalty_window));
  if (const Status status = check(s); !status.ok())
    return Status(Code::corrupt_file, Detail::value, "general.sampling.*: " + status.message());
  return s;
}

tokenizer::GenerationPrompt generation_prompt(bool add) {
  return add ? tokenizer::GenerationPrompt::add : tokenizer::GenerationPrompt::omit;
}

// Where the model is to run, its weights read.
Result<std::unique_ptr<Backend>> load_backend(const Config& config, const gguf::Reader& file,
                                              const TensorTable& table, cpu::Pool& pool,
                                              const ModelOptions& options) {
  const Weights::LoadOptions load_options = {options.check_tensors, options.progress};
  if (options.device == Device::simt) {
#if defined(ENGINE_SIMT)
    return load_simt_backend(config, file, table, pool, load_options, options.kv_bytes);
#else
    return Status(
        Code::device,
        "device simt: this build has no executor (cmake -DENGINE_SIMT=ON); use device cpu");
#endif
  }
  if (options.device != Device::cpu) {
#if defined(ENGINE_CUDA)
    auto backend =
        load_cuda_backend(options.card, config, file, table, pool, load_options, options.kv_bytes);
    const Code code = backend.status().code();
    const bool is_the_cards =
        code == Code::device || code == Code::device_lost || code == Code::out_of_memory;
    if (options.device == Device::cuda || !options.card.empty() || !is_the_cards) return backend;
    if (options.log)
      options.log(LogLevel::info,
                  "device auto: the CPU is used, because " + backend.status().message());
#else
    if (options.device == Device::cuda)
      return Status(
          Code::device,
          "device cuda: this build has no CUDA backend (cmake -DENGINE_CUDA=ON); use device cpu");
#endif
  }
  ENGINE_ASSIGN(Weights weights, Weights::load(file, table, pool, load_options));
  return make_cpu_backend(config, std::move(weights), pool, options.head);
}

}  // namespace

// A friend of Model, for the two load() functions, which differ only in how the file is opened.
struct ModelLoader {
  static Result<Model> load(Result<gguf::Reader> opened, const ModelOptions& options) {
    ENGINE_ASSIGN(const gguf::Reader file, std::move(opened));
    ENGINE_ASSIGN(Config config, Config::from_file(file));
    ENGINE_ASSIGN(const TensorTable table, TensorTable::from_file(file, config));
    ENGINE_ASSIGN(tokenizer::Vocab vocab, tokenizer::Vocab::from_file(file, config.n_vocab));
    ENGINE_ASSIGN(const tokenizer::TemplateKind chat_template, tokenizer::template_of(file));
    ENGINE_ASSIGN(const SamplerOptions sampler, file_sampler(file));
    ENGINE_ASSIGN(std::unique_ptr<cpu::Pool> pool, make_pool(options));
    auto impl = std::make_shared<Model::Impl>(Model::Impl{.config = std::move(config),
                                                          .vocab = std::move(vocab),
                                                          .pool = std::move(pool),
                                                          .sampler = sampler,
                                                          .log = options.log});
    impl->info = describe(file, impl->config, impl->vocab);
    impl->info.has_chat_template = chat_template != tokenizer::TemplateKind::none;
    ENGINE_ASSIGN(impl->backend, load_backend(impl->config, file, table, *impl->pool, options));
    impl->info.backend = impl->backend->name();
    impl->info.n_threads = impl->pool->n_threads();
    const Model model(std::move(impl));
    report(*model.impl_, file.warnings(), table.warnings, chat_template);
    return model;
  }

 private:
  // Tells the log what is odd about the file.
  static void report(const Model::Impl& model, std::span<const std::string> file_warnings,
                     std::span<const std::string> tensor_warnings,
                     tokenizer::TemplateKind chat_template) {
    for (const auto& lines : {file_warnings, tensor_warnings, model.vocab.warnings()})
      for (const std::string& line : lines) model.warn(line);
    if (chat_template == tokenizer::TemplateKind::unknown)
      model.warn("the file's chat template is not Gemma's: the built-in turn format is used");
    if (model.log)
      for (const std::string& note : model.config.notes) model.log(LogLevel::info, note);
  }
};

Result<Model> Model::load(const std::filesystem::path& path, const ModelOptions& options) {
  return no_throw([&] { return ModelLoader::load(gguf::Reader::open(path), options); });
}

Result<Model> Model::load(std::span<const std::byte> gguf, const ModelOptions& options) {
  return no_throw([&] { return ModelLoader::load(gguf::Reader::open(gguf), options); });
}

const ModelInfo& Model::info() const noexcept { return impl_->info; }
const SamplerOptions& Model::default_sampler() const noexcept { return impl_->sampler; }

Result<std::vector<Token>> Model::tokenize(std::string_view text, TokenizeOptions options) const {
  return no_throw([&]() -> Result<std::vector<Token>> {
    const tokenizer::EncodeOptions encode = {.parse_special = options.parse_special};
    if (!options.add_special) return tokenizer::encode(impl_->vocab, text, encode);
    ENGINE_ASSIGN(tokenizer::Prompt prompt, tokenizer::encode_prompt(impl_->vocab, text, encode));
    if (prompt.bos_in_text)
      impl_->warn("the text begins with the BOS token already: no second one is added");
    return std::move(prompt.tokens);
  });
}

std::string_view Model::piece(Token token) const noexcept {
  return impl_->vocab.contains(token) ? impl_->vocab.piece(token) : std::string_view();
}

bool Model::is_end_of_generation(Token token) const noexcept {
  return impl_->vocab.is_end_of_generation(token);
}

Result<std::vector<Token>> Model::apply_chat_template(std::span<const Message> messages,
                                                      bool add_generation_prompt) const {
  return no_throw([&]() -> Result<std::vector<Token>> {
    std::vector<tokenizer::Message> turns;
    for (const Message& m : messages) turns.push_back({m.role, m.content});
    return tokenizer::encode_chat(impl_->vocab, turns, generation_prompt(add_generation_prompt));
  });
}

struct Detokenizer::Impl {
  Model model;  // keeps the vocabulary alive
  tokenizer::Detokenizer detokenizer;
};

Detokenizer::Detokenizer(const Model& model)
    : impl_(new Impl{model, tokenizer::Detokenizer(model.impl_->vocab)}) {}
Detokenizer::Detokenizer(Detokenizer&&) noexcept = default;
Detokenizer& Detokenizer::operator=(Detokenizer&&) noexcept = default;
Detokenizer::~Detokenizer() = default;

std::string Detokenizer::push(Token token) { return impl_->detokenizer.push(token); }
std::string Detokenizer::flush() { return impl_->detokenizer.flush(); }

}  // namespace engine
