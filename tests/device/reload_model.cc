// reload-model: loads a model, evaluates a few tokens and frees it, again and again, and prints how much
// memory was in use after the second time and after the last one, as one JSON line. Needs no package
// beyond the compiler's.
//
// The memory is the card's, with everything that others hold there, for device cuda; otherwise this
// process's resident memory.
#include <malloc.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>

#include "engine/engine.h"
#ifdef ENGINE_CUDA
#include "engine/cuda_calls.h"
#endif

namespace engine {
namespace {

// What a first load takes once and keeps: the context, modules, thread stacks.
constexpr int kWarmUp = 2;

std::optional<Device> device_named(std::string_view name) {
  if (name == "cpu") return Device::cpu;
  if (name == "cuda") return Device::cuda;
  if (name == "simt") return Device::simt;
  return {};
}

std::int64_t resident_bytes() {
  ::malloc_trim(0);
  std::int64_t all = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

std::int64_t used_bytes([[maybe_unused]] Device device) {
#ifdef ENGINE_CUDA
  std::size_t free = 0, total = 0;
  if (device == Device::cuda && cuda::cuda_calls().memory_info(&free, &total) == cudaSuccess)
    return static_cast<std::int64_t>(total - free);
#endif
  return resident_bytes();
}

// A model's whole life. `peak` is the memory in use at its end.
Status use_model(const char* path, Device device, std::int64_t& peak) {
  ENGINE_ASSIGN(const Model model, Model::load(std::filesystem::path(path), {.device = device}));
  ENGINE_ASSIGN(Session session, Session::create(model));
  constexpr std::array<Token, 5> kTokens = {2, 300, 301, 302, 303};
  ENGINE_TRY(session.decode(kTokens));
  ENGINE_TRY(session.logits().status());
  peak = used_bytes(device);
  return {};
}

int run(const char* path, Device device, int n) {
  std::int64_t base = 0, peak = 0;
  for (int i = 0; i < n; ++i) {
    if (i == kWarmUp) base = used_bytes(device);
    const Status status = use_model(path, device, peak);
    if (status.ok()) continue;
    std::fprintf(stderr, "error: load %d: %s\n", i + 1, status.message().c_str());
    return 1;
  }
  const std::int64_t end = used_bytes(device);
  std::printf(R"({"loads": %d, "base_bytes": %lld, "loaded_bytes": %lld, "end_bytes": %lld})"
              "\n",
              n, static_cast<long long>(base), static_cast<long long>(peak),
              static_cast<long long>(end));
  return 0;
}

}  // namespace
}  // namespace engine

int main(int argc, char** argv) {
  const std::optional<engine::Device> device =
      argc == 4 ? engine::device_named(argv[2]) : std::nullopt;
  const int n = argc == 4 ? std::atoi(argv[3]) : 0;
  if (!device || n <= engine::kWarmUp) {
    std::fputs("usage: reload-model MODEL cpu|cuda|simt N, with N at least 3\n", stderr);
    return 2;
  }
  return engine::run(argv[1], *device, n);
}
