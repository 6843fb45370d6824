#include "tests/support/same_bits.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "tests/support/sessions.h"

namespace engine::test {

Model load_at(const std::filesystem::path& file, cpu::Isa isa, int n_threads) {
  // Read once, when the pool is made.
  ::setenv("ENGINE_CPU_ISA", std::string(cpu::name(isa)).c_str(), 1);
  auto model = Model::load(file, {.n_threads = n_threads});
  ::unsetenv("ENGINE_CPU_ISA");
  EXPECT_TRUE(model) << model.status().message();
  EXPECT_NE(model->info().backend.find(cpu::name(isa)), std::string::npos) << model->info().backend;
  return *model;
}

std::vector<float> logits_after(const Model& model, std::span<const Token> tokens,
                                const SessionOptions& options) {
  Session session = session_of(model, tokens, options);
  return logits_of(session);
}

bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

}  // namespace engine::test
