// Pieces of one block of memory, so that nothing is asked of a driver while sequences come and go.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>

#include "engine/kv_memory.h"

namespace engine {

// Any thread may allocate and free. A forked child has no use for the memory: freeing does nothing there.
class Arena : public KvMemory {
 public:
  // `memory` has n bytes, aligned to kDeviceAlignment. `name` is for error messages.
  Arena(std::string name, Slab memory, std::size_t n);
  // Aligned to kDeviceAlignment: from the smallest gap that is large enough, so that what is small leaves
  // the large ones whole. Errors: out_of_memory with the bytes
  // asked for, the largest gap, and those in all.
  Result<Slab> allocate(std::size_t n) override;

 private:
  using Ranges = std::map<std::size_t, std::size_t>;  // sizes by offset
  void give_back(std::size_t offset) noexcept;

  std::string name_;
  Slab memory_;
  std::size_t n_bytes_;
  const std::int64_t process_id_;
  std::mutex mutex_;
  Ranges gaps_, used_;  // no two gaps touch
};

}  // namespace engine
