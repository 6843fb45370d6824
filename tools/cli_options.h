// The command line of gemma-cli.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/engine_options.h"

namespace CLI {
class App;
}

namespace engine::tools {

enum class PromptMode {
  automatic,  // chat if the file has a chat template, else raw
  raw,        // the model continues the text
  chat,       // the text is a user's turn
};

// Unset: the file's value, or Gemma's.
struct SamplingFlags {
  std::optional<float> temperature, top_p, min_p, repeat_penalty, presence_penalty,
      frequency_penalty;
  std::optional<int> top_k;
  std::optional<std::uint64_t> seed;  // unset: a random one
};

struct CliOptions {
  EngineOptions engine;
  std::optional<std::string> prompt;
  std::optional<std::string> prompt_file;
  std::optional<std::string> system;
  PromptMode mode = PromptMode::automatic;
  SamplingFlags sampling;
  std::optional<int> max_tokens;  // unset: kRawMaxTokens in raw mode, else -1, no limit
  std::vector<std::string> stop;
  bool ignore_eos = false;
  int n_draft = kMostDraft;
  bool escape = false;  // expand_escapes() on prompt, system and stop
  bool parse_special = false;
  bool json = false;
  bool stats = false;
};

// A pretrained model never ends by itself.
inline constexpr int kRawMaxTokens = 128;

void add_cli_options(CLI::App& app, CliOptions& options);
// What the parser cannot do: expands escapes, and looks for what does not fit together.
// Returns a complaint, or an empty string.
std::string finish_options(CliOptions& options);
// `defaults` with the flags that were given, and a seed.
SamplerOptions apply(const SamplingFlags& flags, SamplerOptions defaults);

}  // namespace engine::tools
