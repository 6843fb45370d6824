// stages-bench: where the time of a prompt and of a token goes, op by op. Built with
// -DENGINE_STAGE_TIMER=ON.
#include <CLI/CLI.hpp>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "bench/make_pool.h"
#include "bench/random_tokens.h"
#include "bench/roofline.h"
#include "bench/timed_ops.h"
#include "engine/cpu_ops.h"
#include "engine/sampler.h"
#include "tests/support/forward_pass.h"

namespace engine::bench {
namespace {

struct Options {
  std::string model;
  int n_threads = 0, n_prompt = 512, n_context = 128, n_passes = 20;
  Matmuls matmuls = Matmuls::together;
};

class Bench {
 public:
  Bench(test::ForwardPass& pass, cpu::Pool& pool, const Options& options)
      : pass_(pass), pool_(pool), options_(options) {}

  // Evaluates the tokens; with a log also the head, and chooses a token.
  Status evaluate(const std::vector<std::int32_t>& tokens, StageLog* log) {
    ENGINE_TRY(pass_.append(tokens));
    Status status;
    ENGINE_TRY(pool_.run([&] {
      CpuOps ops(pool_);
      if (log == nullptr) return pass_.layers(ops);
      TimedOps timed(ops, pass_.weights(), options_.matmuls, *log);
      log->begin_pass();
      pass_.layers(timed);
      pass_.head(timed);
      const auto logits = pass_.logits();
      log->time("sample", static_cast<double>(logits.size_bytes()),
                [&] { status = sample(logits, {}, {}, 0, pool_).status(); });
      log->end_pass();
    }));
    return status;
  }

  Status time_prompt(StageLog& log) {
    const auto tokens = random_tokens(options_.n_prompt, pass_.config().n_vocab);
    for (int pass = 0; pass < options_.n_passes; ++pass) {
      pass_.clear();
      ENGINE_TRY(evaluate(tokens, &log));
    }
    return {};
  }

  Status time_token(StageLog& log) {
    pass_.clear();
    ENGINE_TRY(evaluate(random_tokens(options_.n_context, pass_.config().n_vocab), nullptr));
    for (const std::int32_t token : random_tokens(options_.n_passes, pass_.config().n_vocab))
      ENGINE_TRY(evaluate({token}, &log));
    return {};
  }

 private:
  test::ForwardPass& pass_;
  cpu::Pool& pool_;
  const Options& options_;
};

Status run(const Options& options) {
  ENGINE_ASSIGN(const std::unique_ptr<cpu::Pool> pool, make_pool(options.n_threads));
  ENGINE_ASSIGN(const gguf::Reader file, gguf::Reader::open(std::filesystem::path(options.model)));
  ENGINE_ASSIGN(test::ForwardPass pass, test::ForwardPass::load(file, *pool));
  const double bandwidth = read_bandwidth(*pool);
  std::printf("cpu %s, %d threads, 16-bit activations, %.1f GB/s read from memory\n",
              std::string(cpu::name(pool->isa())).c_str(), pool->n_threads(), bandwidth * 1e-9);
  Bench bench(pass, *pool, options);
  StageLog prompt, token;
  ENGINE_TRY(bench.time_prompt(prompt));
  std::printf("\nprompt of %d tokens, median of %d\n%s", options.n_prompt, options.n_passes,
              prompt.report(bandwidth).c_str());
  ENGINE_TRY(bench.time_token(token));
  std::printf("\none token behind %d, median of %d\n%s", options.n_context, options.n_passes,
              token.report(bandwidth).c_str());
  return {};
}

}  // namespace
}  // namespace engine::bench

int main(int argc, char** argv) {
  engine::bench::Options options;
  bool each = false;
  CLI::App app("Where the time of a prompt and of a token goes, op by op.");
  app.add_option("-m,--model", options.model, "Gemma 3 model, a GGUF file")->required();
  app.add_option("--threads", options.n_threads, "CPU threads; 0: as many as there are cores")
      ->check(CLI::Range(0, 256));
  app.add_option("--prompt", options.n_prompt, "Tokens of the prompt")
      ->capture_default_str()
      ->check(CLI::Range(1, 8192));
  app.add_option("--context", options.n_context, "Tokens before the token")
      ->capture_default_str()
      ->check(CLI::Range(1, 8192));
  app.add_option("--passes", options.n_passes, "Passes of each kind")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  app.add_flag("--each-matmul", each, "Time matmuls that share a parallel region one by one");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
  if (each) options.matmuls = engine::bench::Matmuls::each;
  const engine::Status status = engine::bench::run(options);
  if (!status.ok()) std::fprintf(stderr, "error: %s\n", status.message().c_str());
  return status.ok() ? 0 : 1;
}
