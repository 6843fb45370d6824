// Runs a fuzz target over files: main() where libFuzzer's is not available.
//   fuzz_x <file or directory>…
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

int n_inputs = 0;

void run_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  const std::vector<std::uint8_t> bytes(text.begin(), text.end());
  LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  ++n_inputs;
}

void run_path(const std::filesystem::path& path) {
  if (!std::filesystem::is_directory(path)) return run_file(path);
  for (const auto& entry : std::filesystem::directory_iterator(path)) run_path(entry.path());
}

}  // namespace

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) run_path(argv[i]);
  std::printf("%d inputs\n", n_inputs);
  return n_inputs > 0 ? 0 : 1;
}
