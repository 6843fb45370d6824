// The CPU backend.
#pragma once

#include <memory>

#include "engine/backend.h"
#include "engine/config.h"
#include "engine/state.h"
#include "engine/weights.h"
#include "kernels/cpu/pool.h"

namespace engine {

// `config` and `pool` outlive it; `weights` are arranged for it. Errors: out_of_memory.
Result<std::unique_ptr<Backend>> make_cpu_backend(const Config& config, Weights weights,
                                                  cpu::Pool& pool, HeadMode head);

}  // namespace engine
