#include "tests/support/model_file.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

namespace engine::test {

std::filesystem::path model_file() {
  const char* path = std::getenv("ENGINE_MODEL");
  if (path != nullptr && *path != '\0') return path;
  return std::filesystem::path(ENGINE_SOURCE_DIR) / "models" / "gemma-3-270m-q4_k_m.gguf";
}

std::filesystem::path golden_file(std::string_view name) {
  return std::filesystem::path(ENGINE_SOURCE_DIR) / "tests" / "golden" / name;
}

int run_tests_with_model(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  std::error_code error;
  if (!std::filesystem::is_regular_file(model_file(), error)) {
    constexpr int kSkipped = 77;
    std::printf("skipped: no model at %s; set ENGINE_MODEL to its path\n", model_file().c_str());
    return kSkipped;
  }
  return RUN_ALL_TESTS();
}

}  // namespace engine::test
