#include "tools/engine_options.h"

#include <CLI/CLI.hpp>
#include <utility>

#include "gguf/reader.h"
#include "tools/option_checks.h"
#include "tools/progress_bar.h"

namespace engine::tools {
namespace {

// "auto", "cpu", "cuda", "cuda:CARD" or "simt"; false for anything else.
bool set_device(const std::string& text, ModelOptions& options) {
  const std::size_t colon = text.find(':');
  const std::string name = text.substr(0, colon);
  options.card = colon == std::string::npos ? "" : text.substr(colon + 1);
  options.device = name == "cpu"    ? Device::cpu
                   : name == "cuda" ? Device::cuda
                   : name == "simt" ? Device::simt
                                    : Device::automatic;
  if (colon != std::string::npos) return name == "cuda" && !options.card.empty();
  return options.device != Device::automatic || name == "auto";
}

void set_session_and_model(CLI::App& app, EngineOptions& options) {
  app.add_option_function<std::string>(
         "--device",
         [&](const std::string& text) {
           if (!set_device(text, options.model))
             throw CLI::ValidationError(
                 "--device",
                 "expected auto, cpu, cuda, cuda:CARD or simt, got " + gguf::printable(text));
         },
         "What computes: auto, cpu, cuda, cuda:CARD (an index, UUID or PCI id), or simt, the CUDA "
         "kernels on the CPU, thread by thread, where built in")
      ->type_name("DEVICE")
      ->default_str("auto");
  app.add_option("--threads", options.model.n_threads, "CPU threads; 0: as many as there are cores")
      ->check(whole_number(0))
      ->capture_default_str();
  app.add_option_function<std::string>(
         "--head",
         [&](const std::string& name) {
           options.model.head = name == "full"    ? HeadMode::full
                                : name == "check" ? HeadMode::check
                                                  : HeadMode::screened;
         },
         "How the CPU finds the most likely tokens, which are always the same: screened reads a "
         "part of the output matrix, full all of it, check does both and compares")
      ->check(CLI::IsMember({"screened", "full", "check"}))
      ->default_str("screened");
  app.add_option("--ctx", options.session.n_ctx,
                 "Longest prompt and answer, in tokens; 0: what the file allows")
      ->check(whole_number(0))
      ->capture_default_str();
  app.add_option("--chunk", options.session.n_chunk, "Prompt tokens evaluated at a time; 0: all")
      ->check(whole_number(0))
      ->capture_default_str();
  app.add_option_function<std::string>(
         "--kv",
         [&](const std::string& name) {
           options.session.kv = name == "f32" ? KvType::f32 : KvType::f16;
         },
         "Type of the cached keys and values")
      ->check(CLI::IsMember({"f16", "f32"}))
      ->default_str("f16");
}

// What is wrong with a file names it. The reader's messages do so already.
Status with_path(const Status& status, const std::string& path) {
  const std::string shown = gguf::printable(path, path.size());
  if (status.detail() == Detail::none || path.empty() || status.message().starts_with(shown))
    return status;
  return Status(status.code(), status.detail(), shown + ": " + status.message());
}

}  // namespace

void add_engine_options(CLI::App& app, EngineOptions& options) {
  app.add_option("-m,--model", options.model_path, "Gemma 3 model, a GGUF file")->required();
  set_session_and_model(app, options);
  CLI::Option* quiet = app.add_flag_callback(
      "-q,--quiet", [&] { options.verbosity = Verbosity::quiet; }, "Report only errors");
  app.add_flag_callback(
         "-v,--verbose", [&] { options.verbosity = Verbosity::verbose; }, "Report notes, too")
      ->excludes(quiet);
}

Result<Model> load_model(const EngineOptions& options) {
  ProgressBar bar("loading", options.verbosity != Verbosity::quiet);
  ModelOptions model = options.model;
  model.progress = [&](double share) {
    bar.update(share);
    return true;
  };
  model.log = [](LogLevel level, std::string_view line) {
    level == LogLevel::warning ? log_warning(line) : log_info(line);
  };
  Result<Model> loaded = Model::load(options.model_path, model);
  return loaded ? std::move(loaded) : with_path(loaded.status(), options.model_path);
}

Result<Session> create_session(const Model& model, const SessionOptions& options) {
  if (const int n_ctx_train = model.info().n_ctx_train; options.n_ctx > n_ctx_train)
    return bad_input("--ctx: expected a whole number from 0 to " + std::to_string(n_ctx_train) +
                     ", the context length of the file, got " + std::to_string(options.n_ctx));
  return Session::create(model, options);
}

}  // namespace engine::tools
