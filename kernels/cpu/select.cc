#include "kernels/cpu/select.h"

#include <array>
#include <cstdlib>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "kernels/cpu/leaf.h"

namespace engine::cpu {
namespace {

#if defined(__x86_64__)
// clang 14's __builtin_cpu_supports does not know the name. The instructions need the system's
// support for wide registers too, which the builtin checks for avx2.
bool has_f16c() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}
#endif

bool machine_has(Isa isa) {
  switch (isa) {
    case Isa::scalar:
      return true;
    case Isa::avx2:
#if defined(__x86_64__)
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
#else
      return false;
#endif
  }
  return false;
}

constexpr std::array kAll = {Isa::scalar, Isa::avx2};

}  // namespace

std::string_view name(Isa isa) { return isa == Isa::scalar ? "scalar" : "avx2"; }

std::optional<Isa> find_isa(std::string_view wanted) {
  for (Isa isa : kAll)
    if (name(isa) == wanted) return isa;
  return std::nullopt;
}

std::vector<Isa> supported_isas() {
  std::vector<Isa> isas;
  for (Isa isa : kAll)
    if (machine_has(isa)) isas.push_back(isa);
  return isas;
}

Isa best_isa() { return supported_isas().back(); }

std::optional<Isa> isa_from_environment() {
  const char* wanted = std::getenv("ENGINE_CPU_ISA");
  if (wanted == nullptr || *wanted == '\0') return best_isa();
  const std::optional<Isa> isa = find_isa(wanted);
  return isa && machine_has(*isa) ? isa : std::nullopt;
}

const Leaf& leaf(Isa isa) {
#if defined(__x86_64__)
  if (isa == Isa::avx2) return kAvx2Leaf;
#endif
  static_cast<void>(isa);
  return kScalarLeaf;
}

}  // namespace engine::cpu
