// kernels-bench: every CPU op at every instruction-set level of this machine, on one thread and on
// the default number. Options are Google Benchmark's. Exits with 1 if any op gave a wrong result, or
// if none was to be run.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <set>

#include "bench/cases.h"
#include "bench/measure.h"

namespace engine::bench {
namespace {

bool any_wrong = false;

std::vector<std::unique_ptr<cpu::Pool>> make_pools() {
  std::vector<std::unique_ptr<cpu::Pool>> pools;
  for (const cpu::Isa isa : cpu::supported_isas())
    for (const int n_threads : std::set{1, cpu::default_threads()})
      pools.push_back(std::make_unique<cpu::Pool>(n_threads, isa));
  return pools;
}

// The subject of the case that runs now: together they would not fit the memory.
Subject& subject_of(const Case& current) {
  static std::string name;
  static std::unique_ptr<Subject> subject;
  if (name != current.name) {
    subject.reset();
    subject = current.make();
    name = current.name;
  }
  return *subject;
}

void register_case(const Case& wanted, cpu::Pool& pool) {
  const std::string name = wanted.name + "/" + std::string(cpu::name(pool.isa())) +
                           "/threads:" + std::to_string(pool.n_threads());
  benchmark::RegisterBenchmark(
      name.c_str(),
      [&](benchmark::State& state) { measure(state, subject_of(wanted), pool, any_wrong); })
      ->UseRealTime()
      ->Unit(benchmark::kMicrosecond);
}

int run(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  const std::vector<Case> cases = all_cases();
  const auto pools = make_pools();
  for (const Case& wanted : cases)
    for (const auto& pool : pools) register_case(wanted, *pool);
  const bool any_run = benchmark::RunSpecifiedBenchmarks() > 0;
  return any_run && !any_wrong ? 0 : 1;
}

}  // namespace
}  // namespace engine::bench

int main(int argc, char** argv) {
  try {
    return engine::bench::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
