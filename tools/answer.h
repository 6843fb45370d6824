// One answer of gemma-cli: made, shown as it comes, and reported on.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.h"
#include "tools/cli_options.h"
#include "tools/standard_output.h"

namespace engine::tools {

// A session with everything that stays the same from answer to answer.
struct Speaker {
  Session session;
  const CliOptions& options;
  SamplerOptions sampler;
  GenerateOptions generate;
  bool chat = false;
  double load_seconds = 0;
};

// The flags' effect on a loaded model. Errors: those of Session::create; invalid_argument for
// --system or --parse-special in a mode that has no use for it.
Result<Speaker> make_speaker(const Model& model, const CliOptions& options);

struct Turn {
  std::string_view role;  // "user" or "assistant"
  std::string text;
};

// Ids of the conversation with the user's `text` at its end; in raw mode of the text alone.
Result<std::vector<Token>> prompt_ids(const Speaker& speaker, std::span<const Turn> earlier,
                                      const std::string& text);

// Generates, streaming the text to `output` unless --json asks for an object at the end. Ctrl-C and
// a reader that goes away end the answer as cancelled.
Result<Generated> answer(Speaker& speaker, std::span<const Token> prompt, StandardOutput& output);

// Warns of an answer that ended only because the context is full.
void warn_if_cut(const Speaker& speaker, const Generated& answer);

// --json
void print_json(const Speaker& speaker, std::span<const Token> prompt, const Generated& answer,
                StandardOutput& output);
// --stats
void print_stats(const Speaker& speaker, const Generated& answer);

}  // namespace engine::tools
