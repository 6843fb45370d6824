// Where KV pages come from.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "gguf/result.h"

namespace engine {

// Memory that goes back when its owner lets go of it, on any thread; it must not outlive where it came
// from.
using Slab = std::unique_ptr<std::byte, std::function<void(std::byte*)>>;

class KvMemory {
 public:
  virtual ~KvMemory() = default;
  // n bytes, aligned to 64. Within a job of the model's pool, as all work of a backend. Errors:
  // out_of_memory with what was asked for.
  virtual Result<Slab> allocate(std::size_t n) = 0;
};

// This process's.
class HostMemory : public KvMemory {
 public:
  Result<Slab> allocate(std::size_t n) override;
};

}  // namespace engine
