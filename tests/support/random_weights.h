// Weights of made-up models.
#pragma once

#include <cstdint>

#include "gguf/types.h"
#include "tests/support/gguf_builder.h"
#include "tests/support/random.h"

namespace engine::test {

// `n_elements` weights, whole blocks, as a file stores them: random quants and sub-scales, and values
// of -0.5 to 0.5 for F32, F16 and BF16. Empty for a type that gguf/types.h has no block of.
Bytes random_weights(gguf::Type type, std::uint64_t n_elements, Random& random);

}  // namespace engine::test
