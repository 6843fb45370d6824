#include "bench/make_pool.h"

#include <cstdlib>
#include <optional>

#include "gguf/reader.h"
#include "kernels/cpu/select.h"

namespace engine::bench {

Result<std::unique_ptr<cpu::Pool>> make_pool(int n_threads) {
  const std::optional<cpu::Isa> isa = cpu::isa_from_environment();
  if (!isa)
    return Status(Code::invalid_argument,
                  "the environment's ENGINE_CPU_ISA is \"" +
                      gguf::printable(std::getenv("ENGINE_CPU_ISA")) +
                      "\", expected an instruction set that this machine runs");
  return std::make_unique<cpu::Pool>(n_threads > 0 ? n_threads : cpu::default_threads(), *isa);
}

}  // namespace engine::bench
