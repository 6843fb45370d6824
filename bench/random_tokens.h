// The prompts of benchmarks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace engine::bench {

// n ids below n_vocab, the same in every run. n >= 0, n_vocab > 0.
inline std::vector<std::int32_t> random_tokens(std::int64_t n, int n_vocab) {
  std::mt19937 engine(1);
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(n));
  for (std::int32_t& token : tokens)
    token = static_cast<std::int32_t>(engine() % static_cast<unsigned>(n_vocab));
  return tokens;
}

}  // namespace engine::bench
