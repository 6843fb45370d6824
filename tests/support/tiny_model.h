// A tiny, valid Gemma 3 model of made-up weights: what the tests of broken files break.
#pragma once

#include <string>
#include <vector>

#include "gguf/types.h"
#include "tests/support/gguf_builder.h"

namespace engine::test {

struct TinyShape {
  int n_layers = 7;  // so that one, the sixth, is global
  int d_model = 32;  // 256 for types with blocks of 256
  int d_ff = 64;
  int n_heads = 2;
  int n_kv_heads = 1;
  int head_dim = 16;
  int window = 8;
  int n_ctx = 128;
};

inline constexpr TinyShape kTinyShape = {};
inline constexpr TinyShape kTinyShape256 = {.d_model = 256, .d_ff = 256, .head_dim = 128};

inline constexpr int kTinyVocab = 512;

// The tokens: <pad> <eos> <bos> <unk> <start_of_turn> <end_of_turn>, newline runs, 256 byte tokens,
// then pieces of one and two characters, earlier ones preferred in merges.
std::vector<std::string> tiny_tokens();

struct ModelTensor {
  std::string name;                 // "blk.0.attn_q.weight"
  std::vector<std::uint64_t> dims;  // row length first

  bool is_norm() const { return dims.size() == 1; }
  std::uint64_t n_elements() const { return dims[0] * (is_norm() ? 1 : dims[1]); }
};

// The tensors of a model of that shape.
std::vector<ModelTensor> model_tensors(const TinyShape& shape, int n_vocab);

// A model's metadata, without tensors. The tokens begin with those of tiny_tokens(), and all are different.
GgufFile model_metadata(const TinyShape& shape, const std::vector<std::string>& tokens);

// Matrices of `type` (as random_weights() makes them), norms in F32. The
// same arguments always give the same bytes.
GgufFile tiny_model(gguf::Type type = gguf::Type::f32, const TinyShape& shape = kTinyShape);

}  // namespace engine::test
