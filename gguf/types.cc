#include "gguf/types.h"

#include <array>

namespace engine::gguf {
namespace {

constexpr std::array<TypeTraits, 35> kTraits = {{
    {Type::f32, "F32", 1, 4},
    {Type::f16, "F16", 1, 2},
    {Type::q4_0, "Q4_0", 32, 18},
    {Type::q4_1, "Q4_1", 32, 20},
    {Type::q5_0, "Q5_0", 32, 22},
    {Type::q5_1, "Q5_1", 32, 24},
    {Type::q8_0, "Q8_0", 32, 34},
    {Type::q8_1, "Q8_1", 32, 36},
    {Type::q2_k, "Q2_K", 256, 84},
    {Type::q3_k, "Q3_K", 256, 110},
    {Type::q4_k, "Q4_K", 256, 144},
    {Type::q5_k, "Q5_K", 256, 176},
    {Type::q6_k, "Q6_K", 256, 210},
    {Type::q8_k, "Q8_K", 256, 292},
    {Type::iq2_xxs, "IQ2_XXS", 256, 66},
    {Type::iq2_xs, "IQ2_XS", 256, 74},
    {Type::iq3_xxs, "IQ3_XXS", 256, 98},
    {Type::iq1_s, "IQ1_S", 256, 50},
    {Type::iq4_nl, "IQ4_NL", 32, 18},
    {Type::iq3_s, "IQ3_S", 256, 110},
    {Type::iq2_s, "IQ2_S", 256, 82},
    {Type::iq4_xs, "IQ4_XS", 256, 136},
    {Type::i8, "I8", 1, 1},
    {Type::i16, "I16", 1, 2},
    {Type::i32, "I32", 1, 4},
    {Type::i64, "I64", 1, 8},
    {Type::f64, "F64", 1, 8},
    {Type::iq1_m, "IQ1_M", 256, 56},
    {Type::bf16, "BF16", 1, 2},
    {Type::tq1_0, "TQ1_0", 256, 54},
    {Type::tq2_0, "TQ2_0", 256, 66},
    {Type::mxfp4, "MXFP4", 32, 17},
    {Type::nvfp4, "NVFP4", 1, 0},
    {Type::q1_0, "Q1_0", 1, 0},
    {Type::q2_0, "Q2_0", 1, 0},
}};

}  // namespace

const TypeTraits* find_traits(std::uint32_t type_id) noexcept {
  for (const TypeTraits& t : kTraits)
    if (static_cast<std::uint32_t>(t.type) == type_id) return &t;
  return nullptr;
}

const TypeTraits& traits(Type type) noexcept {
  return *find_traits(static_cast<std::uint32_t>(type));
}

}  // namespace engine::gguf
