// A weight matrix as kernels see it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gguf/types.h"

namespace engine::op {

// How the bytes are arranged.
enum class Layout {
  rows,  // as in the file: n_out rows of n_in / block_elements blocks
  // Groups of 16 interleaved rows, see kernels/cpu/planes.h:
  planes,        // Q8_0, Q5_0, Q4_K and Q6_K
  split_planes,  // Q8_0, the high nibbles of all rows before the low ones
  // Groups of 4 interleaved rows, see kernels/cuda/planes.h:
  device_planes,  // Q8_0, Q5_0, Q4_K and Q6_K
};

struct Matrix {
  gguf::Type type;
  Layout layout;
  int n_out, n_in;        // rows, row length
  const std::byte* data;  // aligned to 64 bytes
};

// True for types whose matmul takes 16-bit activations; F32, F16 and BF16 take fp32 ones.
constexpr bool takes_quantized(gguf::Type type) {
  return type != gguf::Type::f32 && type != gguf::Type::f16 && type != gguf::Type::bf16;
}

}  // namespace engine::op
