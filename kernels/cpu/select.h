// Instruction-set levels of the CPU backend: which exist, which this machine runs, which is used.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

namespace engine::cpu {

struct Leaf;  // kernels/cpu/leaf.h

// In ascending order of preference. Which of them exist depends on the architecture built for.
// avx512sums is avx512vnni with another way to multiply in prompts, faster on AMD's processors.
enum class Isa { scalar, neon, avx2, avxvnni, avx512vnni, avx512sums };

// isa: one that exists in this build.
std::string_view name(Isa isa);  // as spelt above
std::optional<Isa> find_isa(std::string_view name);
std::vector<Isa> supported_isas();  // of this build on this machine, ascending
Isa best_isa();                     // the fastest of them
// The level named by the environment variable ENGINE_CPU_ISA, or best_isa() if it is unset or
// empty; nothing if it names a level that is unknown or that this machine lacks: never a silent
// fallback.
std::optional<Isa> isa_from_environment();
const Leaf& leaf(Isa isa);

}  // namespace engine::cpu
