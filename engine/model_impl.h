// What a Model holds. Internal to the engine.
#pragma once

#include <memory>
#include <string>

#include "engine/config.h"
#include "engine/engine.h"
#include "engine/weights.h"
#include "kernels/cpu/pool.h"
#include "tokenizer/chat.h"
#include "tokenizer/vocab.h"

namespace engine {

struct Model::Impl {
  Config config;
  tokenizer::Vocab vocab;
  std::unique_ptr<cpu::Pool> pool;
  Weights weights;
  ModelInfo info;
  SamplerOptions sampler;
  LogSink log;

  void warn(std::string_view line) const {
    if (log) log(LogLevel::warning, line);
  }
};

}  // namespace engine
