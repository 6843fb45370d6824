// How many threads a model runs, and that they rest when there is nothing to do.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "engine/engine.h"
#include "kernels/cpu/pool.h"
#include "tests/support/cpu_time.h"
#include "tests/support/tiny_model.h"

namespace engine {
namespace {

using test::cpu_seconds;

struct Loaded {
  Model model;
  std::vector<std::string> warnings;
};

Loaded load(int n_threads) {
  const test::Bytes file = test::tiny_model(gguf::Type::q8_0).build();
  std::vector<std::string> warnings;
  const LogSink log = [&](LogLevel level, std::string_view line) {
    if (level == LogLevel::warning) warnings.emplace_back(line);
  };
  Model model = Model::load(std::span(file), {.n_threads = n_threads, .log = log}).value();
  return {std::move(model), warnings};
}

TEST(Threads, ByDefaultAsManyAsAreUseful) {
  const Loaded loaded = load(0);
  EXPECT_EQ(loaded.model.info().n_threads, cpu::default_threads());
  EXPECT_TRUE(loaded.warnings.empty());
}

TEST(Threads, NoMoreThanCanRunAtATime) {
  const int most = std::min(cpu::most_threads(), 256);
  EXPECT_EQ(load(most).model.info().n_threads, most);
  EXPECT_TRUE(load(most).warnings.empty());
  for (const int n_threads : {most + 1, 1 << 30}) {
    const Loaded loaded = load(n_threads);
    EXPECT_EQ(loaded.model.info().n_threads, most);
    ASSERT_EQ(loaded.warnings.size(), 1u);
    EXPECT_NE(loaded.warnings[0].find(std::to_string(n_threads) + " threads"), std::string::npos)
        << loaded.warnings[0];
  }
}

TEST(Threads, RestAfterAnAnswer) {
  const Loaded loaded = load(0);
  Session session = Session::create(loaded.model).value();
  const std::vector<Token> prompt = {2, 10, 11, 12};
  ASSERT_TRUE(generate(session, {.temperature = 0}, prompt, {.max_tokens = 20},
                       [](const auto&...) { return true; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const double before = cpu_seconds();
  std::this_thread::sleep_for(std::chrono::seconds(1));
  EXPECT_LT(cpu_seconds() - before, 0.01);
}

}  // namespace
}  // namespace engine
