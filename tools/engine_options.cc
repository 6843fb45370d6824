#include "tools/engine_options.h"

#include <CLI/CLI.hpp>

#include "tools/progress_bar.h"

namespace engine::tools {
namespace {

Device device_named(const std::string& name) {
  return name == "cpu" ? Device::cpu : name == "cuda" ? Device::cuda : Device::automatic;
}

void set_session_and_model(CLI::App& app, EngineOptions& options) {
  app.add_option_function<std::string>(
         "--device", [&](const std::string& name) { options.model.device = device_named(name); },
         "What computes")
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}))
      ->default_str("auto");
  app.add_option("--threads", options.model.n_threads, "CPU threads; 0: as many as there are cores")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--ctx", options.session.n_ctx,
                 "Longest prompt and answer, in tokens; 0: what the file allows")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--chunk", options.session.n_chunk, "Prompt tokens evaluated at a time; 0: all")
      ->check(CLI::NonNegativeNumber)
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
  return Model::load(options.model_path, model);
}

}  // namespace engine::tools
