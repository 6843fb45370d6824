// Weights in device memory.
#pragma once

#include "engine/device_runtime.h"
#include "engine/tensors.h"
#include "engine/weights.h"
#include "gguf/reader.h"
#include "kernels/cpu/pool.h"

namespace engine::ENGINE_DEVICE_NS {

struct DeviceWeights {
  Slab memory;      // holds all of the tensors
  Weights tensors;  // pointers into it
};

// Reads every tensor once, in slices of a few MB that the pool's threads arrange for the kernels, and
// uploads each. Errors: those of Weights::load(), and device.
Result<DeviceWeights> load_device_weights(Runtime& runtime, const gguf::Reader& file,
                                          const TensorTable& table, cpu::Pool& pool,
                                          const Weights::LoadOptions& options);

}  // namespace engine::ENGINE_DEVICE_NS
