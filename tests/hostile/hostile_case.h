// A broken (or odd but valid) model file and what loading it must give.
#pragma once

#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "gguf/result.h"
#include "tests/support/gguf_builder.h"
#include "tests/support/load_model.h"
#include "tests/support/tiny_model.h"

namespace engine::test {

struct HostileCase {
  std::string id;  // its rule (README.md) and name, e.g. "G14_n_tensors_65537"; names the test
  std::function<Bytes()> bytes;
  std::vector<Detail> accepted;  // any of these; none is success
  std::string mentions = {};     // what the message must contain
};

// For gtest's output.
inline void PrintTo(const HostileCase& c, std::ostream* out) { *out << c.id; }

using Mutation = std::function<void(GgufFile&)>;

// The tiny model after one mutation.
HostileCase mutated(std::string id, Mutation mutate, std::vector<Detail> accepted,
                    std::string mentions = {});
// The same that must load.
HostileCase accepted(std::string id, Mutation mutate);

// Loads the case from memory and from a file and checks the outcome, the time and heap that it may
// take, and that a valid model still loads afterwards.
void check(const HostileCase& c);

}  // namespace engine::test

// Runs a function's cases as tests Suite/Hostile.Case/<id>.
#define ENGINE_HOSTILE_SUITE(Suite, cases)                                       \
  class Suite : public ::testing::TestWithParam<::engine::test::HostileCase> {}; \
  TEST_P(Suite, Outcome) { ::engine::test::check(GetParam()); }                  \
  INSTANTIATE_TEST_SUITE_P(Hostile, Suite, ::testing::ValuesIn(cases),           \
                           [](const auto& test) { return test.param.id; })
