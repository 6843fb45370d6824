// The matmul kernels behind matmuls() (kernels/op/matmul.h). Every n_t and n_out is at least 1.
#pragma once

#include <span>

#include "kernels/cuda/launch.cuh"
#include "kernels/op/matmul.h"

namespace engine::ENGINE_DEVICE_NS {

// Weights of any type as they are in the file (Layout::rows).
void matmul_rows(const op::MatmulArgs&, Stream&);

// Weights in planes (Layout::device_planes), in one launch; made for up to 8 columns. At most
// kMatvecMatrices, all with the same n_t.
inline constexpr int kMatvecMatrices = 4;
void matvec(std::span<const op::MatmulArgs>, Stream&);

}  // namespace engine::ENGINE_DEVICE_NS
