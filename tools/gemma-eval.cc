// gemma-eval: answers requests, one JSON object a line, with one JSON object a line, in order.
//
// A line that cannot be answered, an empty one included, gets {"error": …}, and the rest goes on.
#include <CLI/CLI.hpp>
#include <array>
#include <cerrno>
#include <cstdio>
#include <new>
#include <string>
#include <system_error>
#include <utility>

#include "tools/engine_options.h"
#include "tools/eval_commands.h"
#include "tools/interrupt.h"
#include "tools/line_reader.h"
#include "tools/program.h"

namespace engine::tools {
namespace {

// Far above the longest context of any model; what a longer line would take is not worth its risk.
constexpr std::size_t kMaxLineBytes = std::size_t{16} << 20;

struct Command {
  const char* name;
  EvalCommand run;
  const char* description;
};

constexpr std::array kCommands = {
    Command{"tokenize", tokenize, R"({"text"} -> {"ids"}, without BOS)"},
    Command{"detokenize", detokenize, R"({"ids"} -> {"text"})"},
    Command{
        "logits", logits,
        R"({"ids", "positions", "top"} -> {"positions": [{"pos", "logsumexp", "top": [[id, logit]]}]})"},
    Command{
        "generate", generate,
        R"({"ids" or "text", "max_tokens", "temperature", "seed", ...} -> {"ids", "text", "finish_reason"})"},
    Command{"perplexity", perplexity, R"({"ids" or "text"} -> {"mean_nll", "n"})"},
};

struct EvalOptions {
  EngineOptions engine;
  EvalCommand command = nullptr;
  bool parse_special = false;
  std::string input;  // empty: standard input
};

void add_eval_options(CLI::App& app, EvalOptions& options) {
  app.require_subcommand(0, 1);  // that there is one is checked later, with a better message
  for (const Command& command : kCommands) {
    CLI::App* sub = app.add_subcommand(command.name, command.description);
    sub->callback([&options, &command] { options.command = command.run; });
    sub->fallthrough();  // all other options belong to the program and may follow the command
    if (command.run == tokenize)
      sub->add_flag("--parse-special", options.parse_special,
                    "Text like <start_of_turn> becomes the control token");
  }
  add_engine_options(app, options.engine);
  app.add_option("input", options.input, "File with the requests (default: standard input)");
}

Result<Evaluator> load_evaluator(const EvalOptions& options) {
  ENGINE_ASSIGN(Model model, load_model(options.engine));
  ENGINE_ASSIGN(Session session, create_session(model, options.engine.session));
  return Evaluator{std::move(model), std::move(session), options.parse_special};
}

Json error_json(std::string_view message) { return {{"error", message}}; }

Json answer_line(Evaluator& evaluator, EvalCommand command, std::string_view line) try {
  const Result<EvalRequest> request = EvalRequest::parse(line);
  if (!request) return error_json(request.status().message());
  Result<Json> answer = command(evaluator, *request);
  return answer ? *std::move(answer) : error_json(answer.status().message());
} catch (const std::bad_alloc&) {
  return error_json("out of memory");
}

ExitCode answer_lines(Evaluator& evaluator, EvalCommand command, std::FILE* in,
                      StandardOutput& output) {
  LineReader lines(in, kMaxLineBytes);
  std::string line;
  while (output.ok() && lines.next(line))
    output.write(
        to_line(lines.too_long()
                    ? error_json("the line has " + std::to_string(lines.line_bytes()) +
                                 " bytes, at most " + std::to_string(kMaxLineBytes) + " are read")
                    : answer_line(evaluator, command, line)));
  if (std::ferror(in) != 0) return fail(kFailure, "the requests cannot be read to their end");
  return output.exit_code();
}

std::string missing_command(const EvalOptions& options) {
  std::string names;
  for (const Command& command : kCommands)
    names += (names.empty() ? "" : ", ") + std::string(command.name);
  return (options.input.empty() ? "a command is missing"
                                : "'" + options.input + "' is no command") +
         "; the commands are " + names;
}

ExitCode run(const EvalOptions& options, StandardOutput& output) {
  if (options.command == nullptr) return fail(kUsage, missing_command(options));
  handle_interrupts();
  set_verbosity(options.engine.verbosity);
  std::FILE* in = options.input.empty() ? stdin : std::fopen(options.input.c_str(), "rb");
  if (in == nullptr)
    return fail(kUsage,
                "cannot open '" + options.input + "': " + std::generic_category().message(errno));
  Result<Evaluator> evaluator = load_evaluator(options);
  if (!evaluator) return fail(evaluator.status());
  return answer_lines(*evaluator, options.command, in, output);
}

}  // namespace
}  // namespace engine::tools

int main(int argc, char** argv) {
  using namespace engine::tools;
  EvalOptions options;
  return run_program(
      {.name = "gemma-eval",
       .description = "Answers requests, one JSON object a line, with one JSON object a line.",
       .add_options = [&](CLI::App& app) { add_eval_options(app, options); },
       .run = [&](StandardOutput& output) { return run(options, output); }},
      argc, argv);
}
