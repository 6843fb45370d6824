// What the benchmarks are worth: a wrong result is not timed, and the roofs are there.
#include "bench/measure.h"

#include <gtest/gtest.h>

#include "tests/support/ops/matmul_op.h"
#include "tests/support/ops/residual_op.h"

namespace engine::bench {
namespace {

using test::ResidualOp;

// Collects what a benchmark reports instead of printing it.
class Recorder : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Run>& runs) override { run = runs.at(0); }
  Run run;
};

struct Outcome {
  benchmark::BenchmarkReporter::Run run;
  bool any_wrong = false;
};

Outcome run_benchmark(Subject& subject, cpu::Pool& pool) {
  Outcome outcome;
  benchmark::RegisterBenchmark("subject", [&](benchmark::State& state) {
    measure(state, subject, pool, outcome.any_wrong);
  })->Iterations(3);
  Recorder recorder;
  benchmark::RunSpecifiedBenchmarks(&recorder, "^subject");
  benchmark::ClearRegisteredBenchmarks();
  outcome.run = recorder.run;
  return outcome;
}

Outcome run_benchmark(Subject& subject) {
  cpu::Pool pool(2);
  return run_benchmark(subject, pool);
}

TEST(Measure, TimesARightResult) {
  Rotation<ResidualOp> subject({.n_t = 4, .n_i = 640}, Source::cache, 0);
  const Outcome outcome = run_benchmark(subject);
  EXPECT_FALSE(outcome.any_wrong);
  EXPECT_FALSE(outcome.run.error_occurred) << outcome.run.error_message;
  EXPECT_EQ(outcome.run.iterations, 3);
  EXPECT_GT(outcome.run.counters.at("GB/s"), 0);
  EXPECT_FALSE(outcome.run.counters.contains("roof_pct"));
}

TEST(Measure, GivesTheShareOfTheRoof) {
  Rotation<test::MatmulOp> subject(
      {.type = gguf::Type::q8_0, .layout = op::Layout::planes, .n_out = 256, .n_in = 640, .n_t = 1},
      Source::memory, 1 << 20);
  const Outcome outcome = run_benchmark(subject);
  EXPECT_FALSE(outcome.run.error_occurred) << outcome.run.error_message;
  EXPECT_GT(outcome.run.counters.at("GOP/s"), 0);
  EXPECT_GT(outcome.run.counters.at("roof_pct"), 0);
}

// Right on one thread only.
struct WrongOp : ResidualOp {
  using ResidualOp::ResidualOp;
  void run(int first, int n, cpu::Pool& pool) {
    ResidualOp::run(first, n, pool);
    if (pool.n_threads() > 1) y_[7] += 0.5f;
  }
};

TEST(Measure, RefusesAWrongResult) {
  Rotation<WrongOp> subject({.n_t = 4, .n_i = 640}, Source::cache, 0);
  const Outcome outcome = run_benchmark(subject);
  EXPECT_TRUE(outcome.any_wrong);
  EXPECT_TRUE(outcome.run.error_occurred);
  EXPECT_NE(outcome.run.error_message.find("1 of 2560 off, worst [7]"), std::string::npos)
      << outcome.run.error_message;
}

// The second pool's result is compared with the first's.
TEST(Measure, RefusesOtherBits) {
  Rotation<WrongOp> subject({.n_t = 4, .n_i = 640}, Source::cache, 0);
  cpu::Pool one(1), two(2);
  EXPECT_FALSE(run_benchmark(subject, one).any_wrong);
  const Outcome outcome = run_benchmark(subject, two);
  EXPECT_TRUE(outcome.any_wrong);
  EXPECT_NE(outcome.run.error_message.find("bits differ at [7]"), std::string::npos)
      << outcome.run.error_message;
}

// Every op of a rotation is checked.
struct WrongCopy : ResidualOp {
  using ResidualOp::ResidualOp;
  WrongCopy(const WrongCopy& other) : ResidualOp(other) { x()[5] = 1; }
};

TEST(Measure, RefusesAWrongCopy) {
  Rotation<WrongCopy> subject({.n_t = 4, .n_i = 640}, Source::memory, 100'000);
  const Outcome outcome = run_benchmark(subject);
  EXPECT_TRUE(outcome.any_wrong);
  EXPECT_NE(outcome.run.error_message.find("bits differ at [5]"), std::string::npos)
      << outcome.run.error_message;
}

TEST(Roofline, KnowsEveryInstructionSet) {
  for (const cpu::Isa isa : cpu::supported_isas()) {
    cpu::Pool pool(1, isa);
    for (const Multiply kind : {Multiply::int16, Multiply::int16_blocks, Multiply::fp32}) {
      if (isa == cpu::Isa::scalar && kind == Multiply::int16_blocks) continue;  // has no probe
      // Slower than one a nanosecond no machine of these is, nor faster than a thousand.
      EXPECT_GT(multiply_rate(pool, kind), 1e9) << cpu::name(isa);
      EXPECT_LT(multiply_rate(pool, kind), 1e12) << cpu::name(isa);
    }
  }
}

TEST(Roofline, ReadsMemory) {
  cpu::Pool pool(2);
  const double bandwidth = read_bandwidth(pool);
  EXPECT_GT(bandwidth, 1e8);
  EXPECT_LT(bandwidth, 2e12);
}

}  // namespace
}  // namespace engine::bench
