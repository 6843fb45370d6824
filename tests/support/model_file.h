// Files that golden tests read: the real model, which the repository does not carry, and the
// reference data, which it does.
#pragma once

#include <filesystem>
#include <string_view>

namespace engine::test {

// The environment's ENGINE_MODEL, or models/gemma-3-270m-q4_k_m.gguf in the repository.
std::filesystem::path model_file();

// A file of tests/golden.
std::filesystem::path golden_file(std::string_view name);

// main() of a test program that needs the real model: runs all tests, or, if there is no model,
// says so and returns 77, which ctest counts as skipped.
int run_tests_with_model(int argc, char** argv);

}  // namespace engine::test
