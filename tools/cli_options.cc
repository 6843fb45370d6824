#include "tools/cli_options.h"

#include <CLI/CLI.hpp>
#include <cstdint>
#include <random>

#include "tools/escapes.h"
#include "tools/option_checks.h"

namespace engine::tools {
namespace {

void add_prompt_options(CLI::App& app, CliOptions& options) {
  app.add_option("-p,--prompt", options.prompt, "Prompt");
  app.add_option(
      "-f,--file", options.prompt_file,
      "File with the prompt. -p, -f and standard input, unless that is a terminal, are joined "
      "in this order by newlines; one newline at the end of file and input is dropped. An input "
      "that stays open is waited for: use </dev/null. At most 16 MiB each");
  CLI::Option* raw = app.add_flag_callback(
      "--raw", [&] { options.mode = PromptMode::raw; },
      "Continue the prompt as it is (default for files without a chat template)");
  CLI::Option* chat = app.add_flag_callback(
      "--chat", [&] { options.mode = PromptMode::chat; },
      "Answer the prompt as a user's turn (default for files with a chat template)");
  raw->excludes(chat);
  app.add_option("--system", options.system, "Instructions put before a chat")->excludes(raw);
  app.add_flag("-e,--escape", options.escape,
               R"(Expand \n, \t, \r, \\ and \xHH in -p, --system and --stop)");
  app.add_flag("--parse-special", options.parse_special,
               "In raw mode, text like <start_of_turn> is the control token");
}

void add_sampling_options(CLI::App& app, SamplingFlags& flags) {
  app.add_option("--temp", flags.temperature, "Temperature; 0: always the most likely token")
      ->check(number_within(kTemperatures));
  app.add_option("--top-k", flags.top_k, "Choose among the k most likely tokens; 0: all")
      ->check(whole_number(0));
  app.add_option("--top-p", flags.top_p,
                 "Choose among the likeliest tokens that make up this share")
      ->check(number_within(kShares));
  app.add_option("--min-p", flags.min_p, "Drop tokens below this share of the likeliest one")
      ->check(number_within(kShares));
  app.add_option("--repeat-penalty", flags.repeat_penalty,
                 "Divide the logits of recent tokens; 1: off")
      ->check(number_within(kRepeatPenalties));
  app.add_option("--presence-penalty", flags.presence_penalty,
                 "Lower the logits of recent tokens; 0: off")
      ->check(number_within(kPenalties));
  app.add_option("--frequency-penalty", flags.frequency_penalty,
                 "Lower the logits of recent tokens by their number; 0: off")
      ->check(number_within(kPenalties));
  app.add_option("--seed", flags.seed, "Same seed, same answer; random if not given")
      ->check(whole_number(std::uint64_t{0}));
}

void add_answer_options(CLI::App& app, CliOptions& options) {
  app.add_option("-n,--max-tokens", options.max_tokens,
                 "Longest answer in tokens; -1: until the context is full (default: " +
                     std::to_string(kRawMaxTokens) + " in raw mode, else -1)")
      ->check(whole_number(-1));
  app.add_option("--stop", options.stop, "End the answer before this text; may be repeated")
      ->allow_extra_args(false);
  app.add_flag("--ignore-eos", options.ignore_eos, "Go on after end-of-answer tokens");
  app.add_option(
         "--draft", options.n_draft,
         "Guess up to so many tokens where the text repeats itself, and check them together: "
         "the same answer, sooner; 0: none")
      ->check(whole_number(0, kMostDraft))
      ->capture_default_str();
  app.add_flag("--json", options.json,
               "Print one JSON object with text, ids, counts, timings and settings");
  app.add_flag("--stats", options.stats, "Report speed and settings on standard error");
}

void expand_all(CliOptions& options) {
  if (options.prompt) options.prompt = expand_escapes(*options.prompt);
  if (options.system) options.system = expand_escapes(*options.system);
  for (std::string& stop : options.stop) stop = expand_escapes(stop);
}

template <class T>
void override_with(const std::optional<T>& flag, T& value) {
  if (flag) value = *flag;
}

// Below 2^53, so that readers of JSON that know only doubles keep every digit.
std::uint64_t random_seed() {
  std::random_device device;
  return (std::uint64_t{device()} << 32 | device()) >> 11;
}

}  // namespace

void add_cli_options(CLI::App& app, CliOptions& options) {
  add_engine_options(app, options.engine);
  add_prompt_options(app, options);
  add_sampling_options(app, options.sampling);
  add_answer_options(app, options);
}

std::string finish_options(CliOptions& options) {
  if (options.escape) expand_all(options);
  for (const std::string& stop : options.stop)
    if (stop.empty()) return "--stop: the text is empty";
  if (options.parse_special && options.mode == PromptMode::chat)
    return "--parse-special works in raw mode only: a user's text never becomes a control token";
  return {};
}

SamplerOptions apply(const SamplingFlags& flags, SamplerOptions defaults) {
  override_with(flags.temperature, defaults.temperature);
  override_with(flags.top_k, defaults.top_k);
  override_with(flags.top_p, defaults.top_p);
  override_with(flags.min_p, defaults.min_p);
  override_with(flags.repeat_penalty, defaults.repeat_penalty);
  override_with(flags.presence_penalty, defaults.presence_penalty);
  override_with(flags.frequency_penalty, defaults.frequency_penalty);
  defaults.seed = flags.seed ? *flags.seed : random_seed();
  return defaults;
}

}  // namespace engine::tools
