// The matmul kernels behind matmuls() (kernels/op/matmul.h). Every n_t is at least 1.
#pragma once

#include "kernels/cuda/launch.cuh"
#include "kernels/op/matmul.h"

namespace engine::ENGINE_DEVICE_NS {

// Weights of any type as they are in the file (Layout::rows).
void matmul_rows(const op::MatmulArgs&, Stream&);

}  // namespace engine::ENGINE_DEVICE_NS
