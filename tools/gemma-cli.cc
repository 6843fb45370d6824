// gemma-cli: answers a prompt, or holds a conversation, with a Gemma 3 model.
#include <CLI/CLI.hpp>
#include <chrono>
#include <optional>
#include <string>
#include <vector>

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
  warn_if_cut(speaker, *made);
  if (speaker.options.stats) print_stats(speaker, *made);
  return output.ok() && interrupted() ? kInterrupted : output.exit_code();
}

ExitCode run(CliOptions& options, StandardOutput& output) {
  handle_interrupts();
  if (const std::string complaint = finish_options(options); !complaint.empty())
    return fail(kUsage, complaint);
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
  CliOptions options;
  return run_program(
      {.name = "gemma-cli",
       .description = "Answers a prompt, or holds a conversation, with a Gemma 3 model.",
       .add_options = [&](CLI::App& app) { add_cli_options(app, options); },
       .run = [&](StandardOutput& output) { return run(options, output); }},
      argc, argv);
}
