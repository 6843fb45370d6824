// The threads of programs that run ops without a Model.
#pragma once

#include <memory>

#include "gguf/result.h"
#include "kernels/cpu/pool.h"

namespace engine::bench {

// At the level that the environment's ENGINE_CPU_ISA names, or the best one. n_threads: 0 to 4096; 0
// for as many as the engine chooses. Errors: invalid_argument for a level that this machine lacks.
Result<std::unique_ptr<cpu::Pool>> make_pool(int n_threads);

}  // namespace engine::bench
