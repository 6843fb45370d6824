#include "bench/op_bytes.h"

#include <algorithm>

#include "kernels/cpu/planes.h"

namespace engine::bench {
namespace {

constexpr double kFloat = sizeof(float);

double row_bytes(const op::Matrix& w) {
  const gguf::TypeTraits& traits = gguf::traits(w.type);
  return static_cast<double>(w.n_in) / static_cast<double>(traits.block_elements) *
         static_cast<double>(traits.block_bytes);
}

// n_t quantised rows of n_i: q, a scale per 32, two integer sums per 16.
double quantized_bytes(int n_t, int n_i) { return 1.0 * n_t * n_i * (2 + 4.0 / 32 + 8.0 / 16); }

}  // namespace

double bytes_of(const op::EmbeddingArgs& a) { return a.n_t * (row_bytes(a.w) + kFloat * a.w.n_in); }

double bytes_of(const op::RmsNormArgs& a) { return kFloat * a.n_i * (2.0 * a.n_t + 1); }

double bytes_of(const op::QuantizeArgs& a) {
  return kFloat * a.n_t * a.n_i + quantized_bytes(a.n_t, a.n_i);
}

double bytes_of(const op::MatmulArgs& a) {
  const double weights = a.w.layout == op::Layout::rows
                             ? a.w.n_out * row_bytes(a.w)
                             : static_cast<double>(cpu::planes_bytes(a.w));
  const double x =
      op::takes_quantized(a.w.type) ? quantized_bytes(a.n_t, a.w.n_in) : kFloat * a.n_t * a.w.n_in;
  return weights + x + kFloat * a.n_t * a.w.n_out;
}

double bytes_of(const op::RopeArgs& a) { return kFloat * a.n_t * a.d * (2.0 * a.n_h + 1); }

double bytes_of(const op::KvWriteArgs& a) {
  return 2.0 * a.n_t * a.shape.n_kv * a.shape.d *
         (kFloat + static_cast<double>(a.shape.element_bytes()));
}

double bytes_of(const op::AttentionArgs& a) {
  int begin = a.n_t > 0 ? a.rows[0].pos : 0, end = begin;
  for (int t = 0; t < a.n_t; ++t) {
    begin = std::min(begin, a.window > 0 ? std::max(0, a.rows[t].pos - a.window + 1) : 0);
    end = std::max(end, a.rows[t].attend_until + 1);
  }
  const double keys_and_values =
      2.0 * (end - begin) * a.shape.n_kv * a.shape.d * static_cast<double>(a.shape.element_bytes());
  return keys_and_values + 2 * kFloat * a.n_t * a.n_h * a.shape.d;
}

double bytes_of(const op::ResidualArgs& a) { return 3 * kFloat * static_cast<double>(a.n); }
double bytes_of(const op::GegluArgs& a) { return 3 * kFloat * static_cast<double>(a.n); }
double bytes_of(const op::LogSumExpArgs& a) { return kFloat * a.n_t * (a.n_vocab + 1.0); }

}  // namespace engine::bench
