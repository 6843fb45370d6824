// The forward pass on pools of the test's own, which may have more threads than a model would start:
// how many parallel regions, each a barrier, a token takes, and that threads change no bit.
#include "engine/forward.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "engine/cpu_ops.h"
#include "tests/support/forward_pass.h"
#include "tests/support/same_bits.h"
#include "tests/support/tiny_model.h"

namespace engine {
namespace {

// The widths of the 270M model.
constexpr test::TinyShape kShape = {
    .n_layers = 2, .d_model = 640, .d_ff = 2048, .n_heads = 4, .head_dim = 256};

test::ForwardPass load(gguf::Type type, cpu::Pool& pool) {
  const test::Bytes bytes = test::tiny_model(type, kShape).build();
  return test::ForwardPass::load(gguf::Reader::open(bytes).value(), pool).value();
}

struct Regions {
  std::uint64_t layers = 0, head = 0;
};

// Evaluates n more tokens.
Regions evaluate(test::ForwardPass& pass, int n, cpu::Pool& pool) {
  EXPECT_TRUE(pass.append(std::vector<std::int32_t>(static_cast<std::size_t>(n), 5)).ok());
  Regions regions;
  const Status status = pool.run([&] {
    CpuOps ops(pool);
    const std::uint64_t before = pool.n_regions();
    pass.layers(ops);
    regions.layers = pool.n_regions() - before;
    pass.head(ops);
    regions.head = pool.n_regions() - before - regions.layers;
  });
  EXPECT_TRUE(status.ok());
  return regions;
}

// [q,k,v] [attention] [o] [gate, up] [down]; all between them is done by the leader alone.
TEST(Forward, ATokenTakesFiveRegionsALayerAndOneForTheHead) {
  for (const gguf::Type type : {gguf::Type::q8_0, gguf::Type::f32}) {
    for (const int n_threads : {2, 5}) {
      cpu::Pool pool(n_threads);
      test::ForwardPass pass = load(type, pool);
      evaluate(pass, 70, pool);
      for (int step = 0; step < 2; ++step) {
        const Regions regions = evaluate(pass, 1, pool);
        EXPECT_EQ(regions.layers, 5u * kShape.n_layers) << name(type) << ", " << n_threads;
        EXPECT_EQ(regions.head, 1u) << name(type) << ", " << n_threads;
      }
    }
  }
}

TEST(Forward, OneThreadTakesNone) {
  cpu::Pool pool(1);
  test::ForwardPass pass = load(gguf::Type::q8_0, pool);
  const Regions regions = evaluate(pass, 1, pool);
  EXPECT_EQ(regions.layers + regions.head, 0u);
}

TEST(Forward, TheNumberOfThreadsChangesNoBit) {
  const auto logits = [](int n_threads) {
    cpu::Pool pool(n_threads);
    test::ForwardPass pass = load(gguf::Type::q8_0, pool);
    evaluate(pass, 67, pool);
    evaluate(pass, 1, pool);
    return std::vector<float>(pass.logits().begin(), pass.logits().end());
  };
  const std::vector<float> expected = logits(1);
  for (const int n_threads : {2, 3, 5, 64})
    EXPECT_TRUE(test::same_bits(logits(n_threads), expected)) << n_threads << " threads";
}

}  // namespace
}  // namespace engine
