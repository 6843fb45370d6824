#include "engine/huge_buffer.h"

#include <sys/mman.h>

#include <string>

namespace engine {

HugeBuffer::~HugeBuffer() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

Result<HugeBuffer> HugeBuffer::create(std::size_t bytes) {
  constexpr std::size_t kHugePage = std::size_t{2} << 20;
  HugeBuffer buffer;
  if (bytes == 0) return buffer;
  const auto refuse = [&] {
    return Status(Code::out_of_memory, "cannot allocate " + std::to_string(bytes) + " bytes");
  };
  if (bytes > SIZE_MAX - 2 * kHugePage) return refuse();
  const std::size_t rounded = (bytes + kHugePage - 1) / kHugePage * kHugePage;
  // One huge page more, so that an aligned stretch of the rounded size lies inside; the rest is
  // given back.
  void* mapped = ::mmap(nullptr, rounded + kHugePage, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return refuse();
  auto* start = static_cast<std::byte*>(mapped);
  const std::size_t misaligned = reinterpret_cast<std::uintptr_t>(start) % kHugePage;
  const std::size_t before = misaligned == 0 ? 0 : kHugePage - misaligned;
  if (before > 0) ::munmap(start, before);
  ::munmap(start + before + rounded, kHugePage - before);
  buffer.data_ = start + before;
  buffer.size_ = rounded;
  ::madvise(buffer.data_, rounded, MADV_HUGEPAGE);  // a wish: without huge pages it is only slower
  return buffer;
}

}  // namespace engine
