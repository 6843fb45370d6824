// The CUDA backend: weights, activations and KV pages in device memory, forward.h as launches in one
// stream.
#pragma once

#include <memory>
#include <string_view>

#include "engine/backend.h"
#include "engine/config.h"
#include "engine/tensors.h"
#include "engine/weights.h"
#include "gguf/reader.h"
#include "kernels/cpu/pool.h"

namespace engine {

// The backend on the card of that name (ModelOptions::card). Errors: as below.
Result<std::unique_ptr<Backend>> load_cuda_backend(std::string_view card, const Config& config,
                                                   const gguf::Reader& file,
                                                   const TensorTable& table, cpu::Pool& pool,
                                                   const Weights::LoadOptions& options);
// The backend on the executor of kernels/simt. Reads the weights in slices. `config` and `pool` outlive
// it. Errors: those of Weights::load(), and device.
Result<std::unique_ptr<Backend>> load_simt_backend(const Config& config, const gguf::Reader& file,
                                                   const TensorTable& table, cpu::Pool& pool,
                                                   const Weights::LoadOptions& options);

}  // namespace engine
