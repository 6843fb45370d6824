// A made-up model as large as a real one, written to a file piece by piece.
#pragma once

#include <ostream>

#include "tests/support/tiny_model.h"

namespace engine::test {

struct SyntheticShape {
  TinyShape model;
  int n_vocab = kTinyVocab;  // at least kTinyVocab, at most 400,000
};

// Gemma 3 270M.
inline constexpr SyntheticShape kSynthetic270m = {.model = {.n_layers = 18,
                                                            .d_model = 640,
                                                            .d_ff = 2048,
                                                            .n_heads = 4,
                                                            .head_dim = 256,
                                                            .window = 512,
                                                            .n_ctx = 32768},
                                                  .n_vocab = 262144};
// The same mix of types and kinds of rows in a thousandth of the size.
inline constexpr SyntheticShape kSyntheticSmall = {
    .model =
        {.d_model = 160, .d_ff = 512, .n_heads = 4, .head_dim = 64, .window = 16, .n_ctx = 2048},
    .n_vocab = 1024};

// Writes a GGUF file with the types of a Q4_K_M file whose d_model is no multiple of 256, which are those of
// Gemma 3 270M: rows of d_model, which no block of 256 fits, fall back from Q4_K to Q5_0 and from Q6_K to
// Q8_0. Weights are random, and of sizes with which nothing overflows; the text that it makes means
// nothing. The same shape always gives the same bytes. Errors are the stream's.
//
// heads times head_dim, and d_ff, are multiples of 256; d_model is one of 32.
void write_synthetic_model(const SyntheticShape& shape, std::ostream& out);

}  // namespace engine::test
