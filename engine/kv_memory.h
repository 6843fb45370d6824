// Where what a sequence keeps lies: its KV pages, and its last hidden row.
#pragma once

#include <cstddef>

#include "engine/slab.h"
#include "gguf/result.h"

namespace engine {

class KvMemory {
 public:
  virtual ~KvMemory() = default;
  // n bytes, aligned to kDeviceAlignment; given back on any thread. Within a job of the model's pool, as all work of a
  // backend. Errors: out_of_memory with what was asked for.
  virtual Result<Slab> allocate(std::size_t n) = 0;
};

// This process's.
class HostMemory : public KvMemory {
 public:
  Result<Slab> allocate(std::size_t n) override;
};

}  // namespace engine
