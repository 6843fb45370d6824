// Hyperparameters of a Gemma 3 text model, read from GGUF metadata and checked against each other.
// Everything a later layer divides by, allocates from or indexes with has been range-checked here.
#pragma once

#include <string>
#include <vector>

#include "gguf/reader.h"
#include "gguf/result.h"

namespace engine {

struct Config {
  int n_layers = 0;  // 1..256
  int d_model = 0;   // width of the residual stream
  int d_ff = 0;      // width of the feed-forward layer
  int n_heads = 0;   // query heads, a multiple of n_kv_heads
  int n_kv_heads = 0;
  int head_dim = 0;     // even
  int n_vocab = 0;      // rows of token_embd; the token list may be shorter
  int n_ctx_train = 0;  // context length the file declares
  int window = 0;       // keys a local layer sees, the current one included; n_ctx_train = all
  float rms_eps = 0;
  double rope_base_global = 0, rope_base_local = 0;
  double rope_factor_global = 1;  // linear scaling of positions on global layers; 1 on local ones
  // What attention divides by the root of: head_dim, except for the 27B shape (62 layers), where it is
  // 168 = 5376/32, its width per query head. No GGUF key says so.
  int query_width = 0;
  std::vector<bool>
      is_local;      // [n_layers]; every sixth layer is global unless the file says otherwise
  std::string name;  // general.name, possibly empty
  // One line per default used because the file lacks a key.
  std::vector<std::string> notes;

  // Errors: ARCH, MISSING, TYPE, HPARAM; UNSUPPORTED for a key that asks for something else than
  // Gemma 3's text model.
  static Result<Config> from_file(const gguf::Reader& file);
};

}  // namespace engine
