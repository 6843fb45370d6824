// gemma-cli: answers a prompt, or holds a conversation, with a Gemma 3 model.
#include <CLI/CLI.hpp>
#include <chrono>

#include "tools/answer.h"
#include "tools/chat_loop.h"
#include "tools/cli_options.h"
#include "tools/interrupt.h"
#include "tools/program.h"
#include "tools/prompt_input.h"

namespace engine::tools {
namespace {

Result<Speaker> load_speaker(const CliOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  ENGINE_ASSIGN(const Model model, load_model(options.engine));
  ENGINE_ASSIGN(Speaker speaker, make_speaker(model, options));
  speaker.load_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return speaker;
}

ExitCode answer_once(Speaker& speaker, const std::string& text, StandardOutput& output) {
  const Result<std::vector<Token>> prompt = prompt_ids(speaker, {}, text);
  if (!prompt) return fail(prompt.status());
  const Result<Generated> made = answer(speaker, *prompt, output);
  if (!made) {
    // A broken model is found at load; what fails now is the run.
    return fail(made.status().code() == Code::invalid_argument ? kUsage : kFailure,
                made.status().message());
  }
  if (speaker.options.json)
    print_json(speaker, *prompt, *made, output);
  else if (!made->text.ends_with('\n'))
    output.write("\n");
  if (speaker.options.stats) print_stats(speaker, *made);
  return output.ok() && interrupted() ? kInterrupted : output.exit_code();
}

ExitCode run(const CliOptions& options, StandardOutput& output) {
  set_verbosity(options.engine.verbosity);
  const Result<std::optional<std::string>> prompt = read_prompt(options);
  if (!prompt) return fail(prompt.status());
  if (!*prompt && options.json) return fail(kUsage, "--json needs a prompt");
  Result<Speaker> speaker = load_speaker(options);
  if (!speaker) return fail(speaker.status());
  return *prompt ? answer_once(*speaker, **prompt, output) : chat_loop(*speaker, output);
}

}  // namespace
}  // namespace engine::tools

int main(int argc, char** argv) {
  using namespace engine::tools;
  start_program();
  handle_interrupts();
  CLI::App app("Answers a prompt, or holds a conversation, with a Gemma 3 model.", "gemma-cli");
  app.set_version_flag("-V,--version", "gemma-cli " ENGINE_VERSION);
  CliOptions options;
  add_cli_options(app, options);
  StandardOutput output;
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return end_parse(app, error, output);
  }
  if (const std::string complaint = finish_options(options); !complaint.empty())
    return fail(kUsage, complaint);
  return run(options, output);
}
