// Rows of a weight matrix (Layout::rows), as exact values and as kernels decode them.
#pragma once

#include <vector>

#include "kernels/op/matrix.h"

namespace engine::ref {

// w[o, 0 .. n_in-1] without any rounding: no product or difference of a block's factors needs more
// bits than a double has.
std::vector<double> exact_row(const op::Matrix& w, int o);

// w[o, 0 .. n_in-1] by gguf::decode, which rounds once where a minimum is added or subtracted.
std::vector<float> decoded_row(const op::Matrix& w, int o);

}  // namespace engine::ref
