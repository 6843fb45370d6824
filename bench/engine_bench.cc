// engine-bench: one measurement per run, printed as one JSON line: of the engine's public interface
// or, by `roofline`, of the machine.
//
// `pp`, `tg` and `batch` time what llama.cpp's llama-bench and llama-batched-bench time, so that
// figures compare: ids are drawn at random, every step computes all logits of its last token, and
// nothing is sampled; `tg --greedy`, `ttft` and `load` sample greedily, `tg --drawn` at random. `generate` answers a text, the
// only one that drafts tokens, if `--draft` asks for it. Models, sessions and the tokens before `--depth`
// are prepared outside of the measured time, but for `load`, which starts with the model's.
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <iterator>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bench/make_pool.h"
#include "bench/random_tokens.h"
#include "bench/roofline.h"
#include "engine/engine.h"

namespace engine::bench {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

// A sequence of the most tokens behind the greatest depth still has a length that fits an int.
constexpr int kMostTokens = 1 << 30, kMostDepth = kMostTokens - 1, kMostSequences = 1024,
              kMostRepeats = 1000;

struct Options {
  std::string model_path;
  int n_threads = 0;
  int n = 0;      // tokens of a prompt, steps, or prompt tokens of a sequence
  int depth = 0;  // tokens that each session holds before
  int batch = 1;
  bool is_greedy = false, is_drawn = false;
  bool warm_up = true;
  int repeat = 1;
  std::string prompt_file;  // of `generate`
  int n_draft = 0;
  SamplerOptions sampler = {.temperature = 0};
  Device device = Device::automatic;
  HeadMode head = HeadMode::screened;
};

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// The same ids in every run. The first is the beginning of a text.
std::vector<Token> random_text(const Model& model, std::int64_t n) {
  std::vector<Token> tokens = random_tokens(n, model.info().n_vocab);
  if (n > 0 && model.info().bos >= 0) tokens.front() = model.info().bos;
  return tokens;
}

// A session with room for n more tokens after depth random ones.
Result<Session> session_at(const Model& model, int depth, int n) {
  ENGINE_ASSIGN(Session session, Session::create(model, {.n_ctx = depth + n}));
  ENGINE_TRY(session.decode(random_text(model, depth)));
  // A device may still be at it; it has finished when there are logits.
  if (depth > 0) ENGINE_TRY(session.logits().status());
  return session;
}

// Evaluates the tokens together and computes the last one's logits.
Status evaluate(Session& session, std::span<const Token> tokens) {
  ENGINE_TRY(session.decode(tokens));
  return session.logits().status();
}

Result<double> prompt_seconds(const Model& model, int depth, int n) {
  ENGINE_ASSIGN(Session session, session_at(model, depth, n));
  const std::vector<Token> tokens = random_text(model, n);
  const Clock::time_point start = Clock::now();
  ENGINE_TRY(evaluate(session, tokens));
  return seconds_since(start);
}

// n steps of one token.
Result<double> step_seconds(const Model& model, int depth, int n) {
  ENGINE_ASSIGN(Session session, session_at(model, depth, n));
  const std::vector<Token> tokens = random_text(model, n);
  const Clock::time_point start = Clock::now();
  for (const Token& token : tokens) ENGINE_TRY(evaluate(session, {&token, 1}));
  return seconds_since(start);
}

// n steps, each of the token that the one before chose.
Result<double> chosen_seconds(const Model& model, const SamplerOptions& sampler, int depth, int n) {
  ENGINE_ASSIGN(Session session, session_at(model, depth, n));
  Token token = random_text(model, 1).front();
  const Clock::time_point start = Clock::now();
  for (int i = 0; i < n; ++i) {
    ENGINE_TRY(session.decode({&token, 1}));
    ENGINE_ASSIGN(token, session.sample(sampler));
  }
  return seconds_since(start);
}

// n steps of one token in each of several sessions.
Result<double> batch_seconds(const Model& model, int depth, int n, int batch) {
  std::vector<Session> sessions;
  for (int s = 0; s < batch; ++s) {
    ENGINE_ASSIGN(Session session, session_at(model, depth, n));
    sessions.push_back(std::move(session));
  }
  std::vector<Session*> pointers;
  for (Session& session : sessions) pointers.push_back(&session);
  const std::vector<Token> tokens = random_text(model, std::int64_t{n} * batch);
  const Clock::time_point start = Clock::now();
  for (std::size_t i = 0; i < tokens.size(); i += pointers.size())
    ENGINE_TRY(decode_batch(pointers, {&tokens[i], pointers.size()}));
  return seconds_since(start);
}

// From the prompt to its first sampled token.
Result<double> first_token_seconds(const Model& model, int n) {
  ENGINE_ASSIGN(Session session, session_at(model, 0, n));
  const std::vector<Token> tokens = random_text(model, n);
  const Clock::time_point start = Clock::now();
  ENGINE_TRY(session.decode(tokens));
  ENGINE_TRY(session.sample({.temperature = 0}).status());
  return seconds_since(start);
}

// The answer of n tokens to a prompt, in a session of its own.
Result<Generated> generate_once(const Model& model, const Options& options,
                                std::span<const Token> prompt, int n) {
  const std::int64_t n_ctx = static_cast<std::int64_t>(prompt.size()) + n;
  if (n_ctx > model.info().n_ctx_train)
    return Status(Code::context_full, "prompt and answer have " + std::to_string(n_ctx) +
                                          " tokens, the context holds " +
                                          std::to_string(model.info().n_ctx_train));
  ENGINE_ASSIGN(Session session, Session::create(model, {.n_ctx = static_cast<int>(n_ctx)}));
  return generate(session, options.sampler, prompt,
                  {.max_tokens = n, .ignore_eos = true, .n_draft = options.n_draft});
}

// --- commands: each fills in what it measured ---------------------------------------------------

Result<Model> load(const Options& options) {
  return Model::load(
      std::filesystem::path(options.model_path),
      {.device = options.device, .n_threads = options.n_threads, .head = options.head});
}

// A load with the figures that go with every measurement.
Result<Model> load(const Options& options, Json& report) {
  ENGINE_ASSIGN(Model model, load(options));
  report["backend"] = model.info().backend;
  report["threads"] = model.info().n_threads;
  report["weight_bytes"] = model.info().weight_bytes;
  return model;
}

// The median of as many runs as asked for, the upper one of two. Several are reported one by one, too.
Result<double> median_seconds(const Options& options, Json& report,
                              const std::function<Result<double>()>& measure) {
  std::vector<double> runs;
  for (int i = 0; i < options.repeat; ++i) {
    ENGINE_ASSIGN(const double seconds, measure());
    runs.push_back(seconds);
  }
  if (runs.size() > 1) report["runs"] = runs;
  const auto middle = runs.begin() + static_cast<std::ptrdiff_t>(runs.size() / 2);
  std::nth_element(runs.begin(), middle, runs.end());
  return *middle;
}

void add_rate(Json& report, double n_tokens, double seconds) {
  report["seconds"] = seconds;
  report["tokens_per_second"] = n_tokens / seconds;
}

Status run_prompt(const Options& options, Json& report) {
  ENGINE_ASSIGN(const Model model, load(options, report));
  if (options.warm_up) ENGINE_TRY(prompt_seconds(model, 0, options.n).status());
  ENGINE_ASSIGN(const double seconds, median_seconds(options, report, [&] {
                  return prompt_seconds(model, options.depth, options.n);
                }));
  add_rate(report, options.n, seconds);
  return {};
}

Status run_steps(const Options& options, Json& report) {
  ENGINE_ASSIGN(const Model model, load(options, report));
  const auto measure = [&](const Model& m, int depth, int n) {
    if (options.is_greedy) return chosen_seconds(m, {.temperature = 0}, depth, n);
    if (options.is_drawn) return chosen_seconds(m, {.top_k = 64}, depth, n);
    return step_seconds(m, depth, n);
  };
  if (options.warm_up) ENGINE_TRY(measure(model, 0, 1).status());
  ENGINE_ASSIGN(const double seconds, median_seconds(options, report, [&] {
                  return measure(model, options.depth, options.n);
                }));
  add_rate(report, options.n, seconds);
  return {};
}

Status run_batch(const Options& options, Json& report) {
  ENGINE_ASSIGN(const Model model, load(options, report));
  if (options.warm_up) ENGINE_TRY(batch_seconds(model, 0, 1, options.batch).status());
  ENGINE_ASSIGN(const double seconds, median_seconds(options, report, [&] {
                  return batch_seconds(model, options.depth, options.n, options.batch);
                }));
  add_rate(report, static_cast<double>(options.n) * options.batch, seconds);
  return {};
}

Status run_first_token(const Options& options, Json& report) {
  ENGINE_ASSIGN(const Model model, load(options, report));
  if (options.warm_up) ENGINE_TRY(first_token_seconds(model, options.n).status());
  ENGINE_ASSIGN(report["seconds"], median_seconds(options, report, [&] {
                  return first_token_seconds(model, options.n);
                }));
  return {};
}

Result<std::string> read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!file) return Status(Code::io, "cannot read " + path);
  return text;
}

// The time of the tokens after the first, which belongs to the prompt's.
Status run_generate(const Options& options, Json& report) {
  ENGINE_ASSIGN(const std::string text, read_text(options.prompt_file));
  ENGINE_ASSIGN(const Model model, load(options, report));
  ENGINE_ASSIGN(const std::vector<Token> prompt, model.tokenize(text));
  if (options.warm_up) ENGINE_TRY(generate_once(model, options, prompt, 2).status());
  Generated answer;
  ENGINE_ASSIGN(const double seconds, median_seconds(options, report, [&]() -> Result<double> {
                  ENGINE_ASSIGN(answer, generate_once(model, options, prompt, options.n));
                  return answer.total_seconds - answer.first_token_seconds;
                }));
  report["prompt_tokens"] = prompt.size();
  report["head_share"] = answer.head_share;
  report["draft"] = options.n_draft;
  report["drafted"] = answer.n_drafted;
  report["accepted"] = answer.n_accepted;
  add_rate(report, options.n - 1, seconds);
  return {};
}

Status run_load(const Options& options, Json& report) {
  const Clock::time_point start = Clock::now();
  ENGINE_ASSIGN(const Model model, load(options, report));
  report["load_seconds"] = seconds_since(start);
  ENGINE_TRY(first_token_seconds(model, options.n).status());
  report["seconds"] = seconds_since(start);
  return {};
}

Status run_roofline(const Options& options, Json& report) {
  ENGINE_ASSIGN(const std::unique_ptr<cpu::Pool> pool, make_pool(options.n_threads));
  report["isa"] = cpu::name(pool->isa());
  report["threads"] = pool->n_threads();
  report["read_bytes_per_second"] = read_bandwidth(*pool);
  report["int16_multiply_adds_per_second"] = multiply_rate(*pool, Multiply::int16);
  report["int16_block_multiply_adds_per_second"] = multiply_rate(*pool, Multiply::int16_blocks);
  report["fp32_multiply_adds_per_second"] = multiply_rate(*pool, Multiply::fp32);
  return {};
}

// --- program ------------------------------------------------------------------------------------

using Command = Status (*)(const Options&, Json&);

struct Program {
  Options options;
  Command command = nullptr;
  std::string name;
  CLI::App app{"Measures the engine; prints one JSON line."};

  CLI::App* add(const std::string& command_name, const std::string& text, Command run) {
    CLI::App* sub = app.add_subcommand(command_name, text);
    sub->callback([this, command_name, run] { command = run, name = command_name; });
    sub->add_option("-t,--threads", options.n_threads, "0: as many as the engine chooses")
        ->check(CLI::Range(0, 256));
    return sub;
  }
  // A command with a model and a number of tokens.
  CLI::App* add(const std::string& command_name, const std::string& text, Command run,
                const std::string& n_text) {
    CLI::App* sub = add(command_name, text, run);
    sub->add_option("-m,--model", options.model_path, "a GGUF file")->required();
    sub->add_option("N", options.n, n_text)->required()->check(CLI::Range(1, kMostTokens));
    sub->add_flag("!--no-warmup", options.warm_up, "measure the first run");
    sub->add_option("--head", options.head, "screened, full or check, where tokens are chosen")
        ->transform(CLI::CheckedTransformer(
            std::map<std::string, HeadMode>{{"screened", HeadMode::screened},
                                            {"full", HeadMode::full},
                                            {"check", HeadMode::check}}));
    sub->add_option("--device", options.device, "auto, cpu, cuda, or simt where it is built in")
        ->transform(
            CLI::CheckedTransformer(std::map<std::string, Device>{{"auto", Device::automatic},
                                                                  {"cpu", Device::cpu},
                                                                  {"cuda", Device::cuda},
                                                                  {"simt", Device::simt}}));
    return sub;
  }
  void add_repeat(CLI::App* sub) {
    sub->add_option("--repeat", options.repeat, "measure as often, and report the median")
        ->check(CLI::Range(1, kMostRepeats));
  }
  void add_depth(CLI::App* sub) {
    sub->add_option("--depth", options.depth, "tokens that a sequence holds before")
        ->check(CLI::Range(0, kMostDepth));
  }

  void add_generate() {
    CLI::App* sub = add("generate", "the answer to a text", run_generate, "tokens");
    sub->add_option("--file", options.prompt_file, "the text")->required();
    sub->add_option("--draft", options.n_draft, "tokens drafted for a step, at most")
        ->check(CLI::Range(0, kMostDraft));
    sub->add_option("--temperature", options.sampler.temperature, "0: the most likely token")
        ->check(CLI::NonNegativeNumber);
    sub->add_option("--seed", options.sampler.seed);
    add_repeat(sub);
  }

  Program() {
    app.require_subcommand(1);
    CLI::App* prompt = add("pp", "a prompt", run_prompt, "tokens");
    add_depth(prompt);
    add_repeat(prompt);
    CLI::App* steps = add("tg", "tokens one by one", run_steps, "steps");
    add_depth(steps);
    add_repeat(steps);
    CLI::Option* greedy = steps->add_flag("--greedy", options.is_greedy,
                                          "go on with the most likely token, chosen by sample()");
    steps
        ->add_flag("--drawn", options.is_drawn,
                   "go on with a token drawn by sample() among the 64 most likely")
        ->excludes(greedy);
    CLI::App* batch = add("batch", "steps of several sequences at once", run_batch, "steps");
    add_depth(batch);
    add_repeat(batch);
    batch->add_option("--sequences", options.batch)
        ->required()
        ->check(CLI::Range(1, kMostSequences));
    add_repeat(add("ttft", "from a prompt to its first token, sampled greedily", run_first_token,
                   "tokens"));
    add_generate();
    add("load", "from an unloaded model to the first token, sampled greedily", run_load,
        "tokens of the prompt");
    add("roofline", "what the machine can do; needs no model", run_roofline);
  }
};

double peak_resident_bytes() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) * 1024;
}

int run(const Program& program) {
  const Options& o = program.options;
  Json report = {{"kind", program.name}, {"n", o.n}, {"depth", o.depth}, {"sequences", o.batch}};
  const Status status = program.command(o, report);
  if (!status.ok()) {
    std::cerr << "error: " << status.message() << '\n';
    return 1;
  }
  report["peak_resident_bytes"] = peak_resident_bytes();
  std::cout << report.dump() << std::endl;
  return std::cout ? 0 : 1;
}

}  // namespace
}  // namespace engine::bench

int main(int argc, char** argv) {
  engine::bench::Program program;
  try {
    program.app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return program.app.exit(error) == 0 ? 0 : 2;
  }
  return engine::bench::run(program);
}
