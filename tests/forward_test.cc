// The forward pass on pools of the test's own, which may have more threads than a model would start:
// how many parallel regions, each a barrier, a token takes, and that threads change no bit.
#include "engine/forward.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "engine/cpu_ops.h"
#include "engine/kv_cache.h"
#include "tests/support/same_bits.h"
#include "tests/support/tiny_model.h"

namespace engine {
namespace {

// The widths of the 270M model.
constexpr test::TinyShape kShape = {
    .n_layers = 2, .d_model = 640, .d_ff = 2048, .n_heads = 4, .head_dim = 256};

// A model with a sequence of its own.
struct Fixture {
  Fixture(cpu::Pool& on, gguf::Type type)
      : pool(on),
        bytes(test::tiny_model(type, kShape).build()),
        file(gguf::Reader::open(bytes).value()),
        config(Config::from_file(file).value()),
        cache(config, op::KvType::f16) {
    weights = Weights::load(file, TensorTable::from_file(file, config).value(), pool, {}).value();
    logits.resize(static_cast<std::size_t>(config.n_vocab));
  }

  // Evaluates n tokens; returns the regions of the layers and of the head on the last row.
  struct Regions {
    std::uint64_t layers = 0, head = 0;
  };
  Regions evaluate(int n) {
    EXPECT_TRUE(cache.reserve(n_past + n).ok());
    std::vector<op::KvRow> rows;
    for (int t = 0; t < n; ++t) rows.push_back({n_past + t, n_past + t, 0});
    n_past += n;
    Regions regions;
    EXPECT_TRUE(pool.run([&] { regions = count(rows); }).ok());
    return regions;
  }

  cpu::Pool& pool;
  test::Bytes bytes;
  gguf::Reader file;
  Config config;
  KvCache cache;
  Weights weights;
  std::vector<float> logits;  // of the last row

 private:
  Regions count(const std::vector<op::KvRow>& rows) {
    const std::vector<std::int32_t> tokens(rows.size(), 5);
    std::vector<std::byte* const*> tables;
    for (int l = 0; l < config.n_layers; ++l) tables.push_back(cache.pages(l));
    std::vector<op::KvPages> pages;
    for (auto& table : tables) pages.push_back({&table});
    state.resize(config, static_cast<int>(rows.size()));
    state.set_positions(config, rows);
    CpuOps ops{pool};
    const std::uint64_t first = pool.n_regions();
    const Batch batch = {tokens, rows, cache.shape(), pages};
    embed(ops, config, weights, batch, state);
    layers(ops, config, weights, batch, state, 0, weights.layers.size());
    const std::uint64_t second = pool.n_regions();
    const float* last_row =
        state.x.data() + state.x.size() - static_cast<std::size_t>(config.d_model);
    head(ops, config, weights, last_row, 1, state, logits.data());
    return {second - first, pool.n_regions() - second};
  }

  State state;
  int n_past = 0;
};

// [q,k,v] [attention] [o] [gate, up] [down]; all between them is done by the leader alone.
TEST(Forward, ATokenTakesFiveRegionsALayerAndOneForTheHead) {
  for (const gguf::Type type : {gguf::Type::q8_0, gguf::Type::f32}) {
    for (const int n_threads : {2, 5}) {
      cpu::Pool pool(n_threads);
      Fixture model(pool, type);
      model.evaluate(70);
      for (int step = 0; step < 2; ++step) {
        const auto regions = model.evaluate(1);
        EXPECT_EQ(regions.layers, 5u * kShape.n_layers) << name(type) << ", " << n_threads;
        EXPECT_EQ(regions.head, 1u) << name(type) << ", " << n_threads;
      }
    }
  }
}

TEST(Forward, TheNumberOfThreadsChangesNoBit) {
  const auto logits = [](int n_threads) {
    cpu::Pool pool(n_threads);
    Fixture model(pool, gguf::Type::q8_0);
    model.evaluate(67);
    model.evaluate(1);
    return model.logits;
  };
  const std::vector<float> expected = logits(1);
  for (const int n_threads : {2, 3, 5, 64})
    EXPECT_TRUE(test::same_bits(logits(n_threads), expected)) << n_threads << " threads";
}

TEST(Forward, OneThreadTakesNone) {
  cpu::Pool pool(1);
  Fixture model(pool, gguf::Type::q8_0);
  EXPECT_EQ(model.evaluate(1).layers, 0u);
}

}  // namespace
}  // namespace engine
