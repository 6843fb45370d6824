// The ops with a stopwatch: they compute what the plain ones do, and account for every call.
#include "bench/timed_ops.h"

#include <gtest/gtest.h>

#include <map>

#include "engine/cpu_ops.h"
#include "tests/support/forward_pass.h"
#include "tests/support/same_bits.h"
#include "tests/support/tiny_model.h"

namespace engine::bench {
namespace {

static_assert(ForwardOps<TimedOps<CpuOps>>);

struct Fixture {
  Fixture() { EXPECT_TRUE(pass.append(tokens).ok()); }

  void run(auto& by) {
    const Status status = pool.run([&] {
      pass.layers(by);
      pass.head(by);
    });
    EXPECT_TRUE(status.ok());
  }

  cpu::Pool pool{2};
  test::Bytes bytes = test::tiny_model(gguf::Type::q8_0, {.n_layers = 3}).build();
  test::ForwardPass pass = test::ForwardPass::load(gguf::Reader::open(bytes).value(), pool).value();
  const std::vector<std::int32_t> tokens = {2, 10, 11, 12};
  CpuOps ops{pool};
};

std::map<std::string, StageLog::Stage> logged(Matmuls matmuls) {
  Fixture fixture;
  StageLog log;
  TimedOps timed(fixture.ops, fixture.pass.weights(), matmuls, log);
  for (int pass = 0; pass < 2; ++pass) {
    log.begin_pass();
    fixture.run(timed);
    log.end_pass();
  }
  std::map<std::string, StageLog::Stage> stages;
  for (const StageLog::Stage& stage : log.stages()) stages[stage.name] = stage;
  return stages;
}

TEST(TimedOps, ChangeNoBit) {
  Fixture plain, timed;
  plain.run(plain.ops);
  StageLog log;
  TimedOps ops(timed.ops, timed.pass.weights(), Matmuls::each, log);
  log.begin_pass();
  timed.run(ops);
  EXPECT_TRUE(test::same_bits(plain.pass.logits(), timed.pass.logits()));
}

TEST(TimedOps, CountTheCallsOfOnePass) {
  const auto stages = logged(Matmuls::together);
  const std::map<std::string, int> expected = {{"embedding", 1},
                                               {"rmsnorm", 6 * 3 + 1},
                                               {"quantize", 4 * 3 + 1},
                                               {"matmul attn_q attn_k attn_v", 3},
                                               {"rope", 2 * 3},
                                               {"kv_write", 3},
                                               {"attention", 3},
                                               {"matmul attn_output", 3},
                                               {"residual", 2 * 3},
                                               {"matmul ffn_gate ffn_up", 3},
                                               {"geglu", 3},
                                               {"matmul ffn_down", 3},
                                               {"matmul head", 1}};
  EXPECT_EQ(stages.size(), expected.size());
  for (const auto& [name, calls] : expected) {
    ASSERT_TRUE(stages.contains(name)) << name;
    EXPECT_EQ(stages.at(name).calls, calls) << name;
    ASSERT_EQ(stages.at(name).seconds.size(), 2u) << name;
    for (const double seconds : stages.at(name).seconds) EXPECT_GT(seconds, 0) << name;
    EXPECT_GT(stages.at(name).bytes, 0) << name;
  }
}

// Gate and up: [64, 32] in Q8_0, 34 bytes a block of 32, groups of 16 rows padded to 576 bytes; x: a
// row of 32, quantised to 2 bytes, a scale per 32 and two sums per 16; y: 64 floats a row. Four rows in
// two of the three layers; in the last one, only the row that is wanted.
TEST(TimedOps, CountBytes) {
  const double rows = 2 * 4 + 1;
  const double one = 3 * 4 * 576 + rows * (32 * 2 + 4 + 2 * 8 + 64 * 4);
  EXPECT_EQ(logged(Matmuls::together).at("matmul ffn_gate ffn_up").bytes, 2 * one);
  EXPECT_EQ(logged(Matmuls::each).at("matmul ffn_gate").bytes, one);
}

TEST(StageLog, ReportsMediansAndWhatLiesBetween) {
  StageLog log;
  for (int pass = 0; pass < 3; ++pass) {
    log.begin_pass();
    log.time("first", 1e6, [] {});
    log.time("second", 2e6, [] {});
    log.time("first", 1e6, [] {});
    log.end_pass();
  }
  const std::string report = log.report(1e9);
  std::vector<std::string> names;
  for (std::size_t at = 0; at < report.size(); at = report.find('\n', at) + 1)
    names.push_back(report.substr(at, report.find(' ', at) - at));
  EXPECT_EQ(names, (std::vector<std::string>{"stage", "first", "second", "(between)", "(all)"}))
      << report;
  EXPECT_NE(report.find("4.000"), std::string::npos) << "megabytes of a pass:\n" << report;
}

}  // namespace
}  // namespace engine::bench
