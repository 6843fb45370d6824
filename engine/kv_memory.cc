#include "engine/kv_memory.h"

#include <new>
#include <string>

#include "engine/align.h"

namespace engine {
namespace {

constexpr std::align_val_t kAlignment{kDeviceAlignment};

}  // namespace

Result<Slab> HostMemory::allocate(std::size_t n) {
  auto* memory = static_cast<std::byte*>(::operator new(n, kAlignment, std::nothrow));
  if (memory == nullptr)
    return Status(Code::out_of_memory, "cannot allocate " + std::to_string(n) + " bytes");
  return Slab(memory, [](std::byte* m) { ::operator delete(m, kAlignment); });
}

}  // namespace engine
