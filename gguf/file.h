// Where a reader's bytes come from: a regular file, or memory of the caller.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>

#include "gguf/result.h"

namespace engine::gguf {

// Random access to bytes whose number is fixed when the source is opened. read() may be called from
// any thread at once.
class Source {
 public:
  virtual ~Source() = default;
  virtual std::uint64_t size() const noexcept = 0;
  // Fills `out` from `offset` on. IO when any byte of it cannot be read; `out` is then unspecified.
  virtual Status read(std::uint64_t offset, std::span<std::byte> out) const = 0;
};

// Opens a regular file. IO for anything else (directories, devices, pipes, sockets), without
// blocking.
Result<std::unique_ptr<const Source>> open_file(const std::filesystem::path& path);

// The caller's bytes, which must outlive the source.
std::unique_ptr<const Source> memory_source(std::span<const std::byte> bytes);

}  // namespace engine::gguf
