#include "kernels/cpu/select.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "kernels/cpu/leaf.h"

namespace engine::cpu {
namespace {

#if defined(__x86_64__)
// clang 14's __builtin_cpu_supports does not know these names. The instructions need the system's
// support for wide registers too, which the builtin checks for avx2.
bool has_f16c() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}
bool has_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
}
bool has_avxvnni() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  constexpr unsigned kAvxVnni = 1u << 4;
  return has_avx2() && __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0 &&
         (eax & kAvxVnni) != 0;
}
bool has_avx512vlvnni() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512vnni");
}
bool has_avx512vnni() {
  return has_avx512vlvnni() && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq");
}
// True where vector additions have ports that the multiplications leave idle. AMD's cores have four
// vector pipes, two of which multiply; Intel's have two for 512 bits, and both do both.
bool adds_are_free() { return __builtin_cpu_is("amd"); }
#else
bool adds_are_free() { return false; }
#endif

struct Level {
  Isa isa;
  std::string_view name;
  const Leaf& (*leaf)();
  bool (*machine_has)();
};

// Of this build, in ascending order of preference.
const Level kLevels[] = {
    {Isa::scalar, "scalar", []() -> const Leaf& { return kScalarLeaf; }, [] { return true; }},
#if defined(__x86_64__)
    {Isa::avx2, "avx2", []() -> const Leaf& { return kAvx2Leaf; }, has_avx2},
    {Isa::avxvnni, "avxvnni",
     []() -> const Leaf& { return has_avxvnni() ? kAvxVnniLeaf : kAvx512VlVnniLeaf; },
     [] { return has_avxvnni() || has_avx512vlvnni(); }},
    {Isa::avx512vnni, "avx512vnni", []() -> const Leaf& { return kAvx512VnniLeaf; },
     has_avx512vnni},
    {Isa::avx512sums, "avx512sums", []() -> const Leaf& { return kAvx512SumsLeaf; },
     has_avx512vnni},
#elif defined(__aarch64__)
    {Isa::neon, "neon", []() -> const Leaf& { return kNeonLeaf; }, [] { return true; }},
#endif
};

const Level& level_of(Isa isa) {
  return *std::find_if(std::begin(kLevels), std::end(kLevels),
                       [&](const Level& level) { return level.isa == isa; });
}

}  // namespace

std::string_view name(Isa isa) { return level_of(isa).name; }

const Leaf& leaf(Isa isa) { return level_of(isa).leaf(); }

std::optional<Isa> find_isa(std::string_view wanted) {
  for (const Level& level : kLevels)
    if (level.name == wanted) return level.isa;
  return std::nullopt;
}

std::vector<Isa> supported_isas() {
  std::vector<Isa> isas;
  for (const Level& level : kLevels)
    if (level.machine_has()) isas.push_back(level.isa);
  return isas;
}

Isa best_isa() {
  const Isa last = supported_isas().back();
  return last == Isa::avx512sums && !adds_are_free() ? Isa::avx512vnni : last;
}

std::optional<Isa> isa_from_environment() {
  const char* wanted = std::getenv("ENGINE_CPU_ISA");
  if (wanted == nullptr || *wanted == '\0') return best_isa();
  const std::optional<Isa> isa = find_isa(wanted);
  return isa && level_of(*isa).machine_has() ? isa : std::nullopt;
}

}  // namespace engine::cpu
