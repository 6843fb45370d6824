// The options that every program with a model has, and loading one as they say.
#pragma once

#include <string>

#include "engine/engine.h"
#include "tools/program.h"

namespace CLI {
class App;
}

namespace engine::tools {

struct EngineOptions {
  std::string model_path;
  ModelOptions model;
  SessionOptions session;
  Verbosity verbosity = Verbosity::normal;
};

// `options` must outlive the app's parsing.
void add_engine_options(CLI::App& app, EngineOptions& options);

// With a progress bar and the engine's messages in the program's log.
Result<Model> load_model(const EngineOptions& options);
// Session::create(), with errors in terms of the program's options.
Result<Session> create_session(const Model& model, const SessionOptions& options);

}  // namespace engine::tools
