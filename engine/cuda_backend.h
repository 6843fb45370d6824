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

// Both read the weights in slices; `config` and `pool` outlive the backend. All device memory is taken
// here: kv_bytes is ModelOptions'. Errors: those of Weights::load(), device and device_lost.

// The backend on the card of that name (ModelOptions::card).
Result<std::unique_ptr<Backend>> load_cuda_backend(std::string_view card, const Config& config,
                                                   const gguf::Reader& file,
                                                   const TensorTable& table, cpu::Pool& pool,
                                                   const Weights::LoadOptions& options,
                                                   std::size_t kv_bytes);
// The backend on the executor of kernels/simt.
Result<std::unique_ptr<Backend>> load_simt_backend(const Config& config, const gguf::Reader& file,
                                                   const TensorTable& table, cpu::Pool& pool,
                                                   const Weights::LoadOptions& options,
                                                   std::size_t kv_bytes);

}  // namespace engine
