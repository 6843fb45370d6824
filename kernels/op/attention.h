// Attention of each row's query heads over the visible keys of its sequence.
//
// Key k is visible to a row when k <= attend_until and, on a local layer, k > pos - window (window
// counts the current token). Head h reads KV head h / (n_h / n_kv). q is already roped and scaled.
// Score: segments of 64 dims, each p = +0 then fma ascending; s = ((P0+P1)+P2)+P3…
// Per tile of 64 keys aligned to absolute position, visible keys only: m = max s; p_j = exp(s_j -
// m); l = halving tree over the 64 slots, invisible ones +0; o[d] = +0 then fma(p_j, v_j[d], o[d]),
// j ascending, invisible keys skipped. A tile without visible keys is skipped. Tiles merge
// ascending: the first is copied; then M' = max(M, m), a = exp(M - M'), b = exp(m - M'), L = fma(l,
// b, L*a), O = fma(o, b, O*a), M = M'. out = O / L.
//
// q [n_t, n_h, d], out [n_t, n_h * d] f32, no overlap.
// Tolerance against ref (double, same pages): 2^-24 * 64 * max|v| + the scores' error: |ds| <=
// 2^-24 * (64 + 4) * sum|q k| enters each weight relatively.
#pragma once

#include "kernels/op/kv_page.h"

namespace engine::op {

// How a device backend spreads a decode step over the card: `n` blocks share the tiles of a (row, KV
// head) and hand each tile's result over unmerged. Rows of a prompt, whose blocks have work enough and
// share keys, go with n = 1, which needs nothing else.
struct AttentionSplit {
  int n = 1;
  int max_tiles = 0;             // no row sees more tiles
  int ahead = 0;                 // the most positions that a row sees beyond its own
  float* sums = nullptr;         // [n_t, n_h, max_tiles, 2]: m and l; aligned to 8 bytes
  float* values = nullptr;       // [n_t, n_h, max_tiles, d]: o; aligned to 8 bytes
  unsigned* arrivals = nullptr;  // [n_t, n_h], 0 before the first call; a call leaves them 0
};

struct AttentionArgs {
  const float* q;  // [n_t, n_h, d]
  KvShape shape;
  KvPages pages;
  const KvRow* rows;  // [n_t]
  float* out;         // [n_t, n_h * d]
  int n_t, n_h;
  int window;                 // keys visible on a local layer; 0: all (global layer)
  AttentionSplit split = {};  // device backends only
};

}  // namespace engine::op

namespace engine::ref {
void attention(const op::AttentionArgs&);
}
namespace engine::cpu {
class Pool;
void attention(const op::AttentionArgs&, Pool&);
}  // namespace engine::cpu
namespace engine::cuda {
class Stream;
void attention(const op::AttentionArgs&, Stream&);
}  // namespace engine::cuda
namespace engine::simt {
class Stream;
void attention(const op::AttentionArgs&, Stream&);
}  // namespace engine::simt
