#include "engine/simt_runtime.h"

#include <cstring>
#include <new>

namespace engine::simt {

Runtime::Runtime(const RuntimeOptions& options)
    : capacity_(options.memory_bytes), device_(options.device), stream_(device_) {}

std::string Runtime::name() const {
  return "simt sm_" + std::to_string(device_.options.architecture);
}

Result<Slab> Runtime::allocate(std::size_t n) {
  collect();
  if (n > capacity_ - used_)
    return Status(Code::out_of_memory, "device simt: " + std::to_string(n) + " bytes asked for, " +
                                           std::to_string(capacity_ - used_) + " free of " +
                                           std::to_string(capacity_));
  try {
    auto* memory = static_cast<std::byte*>(device_.memory.allocate(n));
    used_ += n;
    return Slab(memory, [this, n](std::byte* m) {
      const std::lock_guard lock(mutex_);
      freed_.push_back({m, n});
    });
  } catch (const std::bad_alloc&) {
    return Status(Code::out_of_memory,
                  "device simt: the host cannot allocate " + std::to_string(n) + " bytes for it");
  }
}

void Runtime::collect() {
  const std::lock_guard lock(mutex_);
  for (const Freed& f : freed_) {
    device_.memory.free(f.memory);
    used_ -= f.n;
  }
  freed_.clear();
}

void Runtime::upload(std::byte* to, const void* from, std::size_t n) {
  if (!stream_.error().ok()) return;
  std::memcpy(to, from, n);
  // Uploaded data may look like poison.
  const auto address = reinterpret_cast<std::uintptr_t>(to);
  if (const Extent* buffer = device_.memory.find(address))
    device_.memory.mark_written(reinterpret_cast<const void*>(buffer->begin));
}

Status Runtime::download(void* to, const void* from, std::size_t n) {
  const Error error = stream_.take_error();
  if (!error.ok()) return Status(Code::device, "device simt: " + error.message);
  std::memcpy(to, from, n);
  return {};
}

}  // namespace engine::simt
