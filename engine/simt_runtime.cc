#include "engine/simt_runtime.h"

#include <cstring>
#include <new>

#include "engine/kv_memory.h"

namespace engine::simt {

Runtime::Runtime(const RuntimeOptions& options)
    : capacity_(options.memory_bytes), device_(options.device), stream_(device_) {}

std::string Runtime::name() const {
  return "simt sm_" + std::to_string(device_.options.architecture);
}

Result<Slab> Runtime::allocate(std::size_t n) {
  if (n > capacity_ - used_)
    return Status(Code::out_of_memory, "device simt: " + std::to_string(n) + " bytes asked for, " +
                                           std::to_string(capacity_ - used_) + " free of " +
                                           std::to_string(capacity_));
  try {
    auto* memory = static_cast<std::byte*>(device_.memory.allocate(n));
    used_ += n;
    return Slab(memory, [this, n](std::byte* m) {
      device_.memory.free(m);
      used_ -= n;
    });
  } catch (const std::bad_alloc&) {
    return Status(Code::out_of_memory,
                  "device simt: the host cannot allocate " + std::to_string(n) + " bytes for it");
  }
}

Result<Slab> Runtime::allocate_host(std::size_t n) { return HostMemory().allocate(n); }

void Runtime::upload(std::byte* to, const void* from, std::size_t n) {
  if (!stream_.error().ok()) return;
  std::memcpy(to, from, n);
  // Uploaded data may look like poison.
  const auto address = reinterpret_cast<std::uintptr_t>(to);
  if (const Extent* buffer = device_.memory.find(address))
    device_.memory.mark_written(reinterpret_cast<const void*>(buffer->begin));
}

void Runtime::copy(void* to, const void* from, std::size_t n) {
  if (stream_.error().ok()) std::memcpy(to, from, n);
}

Status Runtime::wait() {
  const Error error = stream_.take_error();
  return error.ok() ? Status() : Status(Code::device, "device simt: " + error.message);
}

Status Runtime::download(void* to, const void* from, std::size_t n) {
  ENGINE_TRY(wait());
  std::memcpy(to, from, n);
  return {};
}

}  // namespace engine::simt
