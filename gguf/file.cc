#include "gguf/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

#include "gguf/file_error.h"

namespace engine::gguf {
namespace {

std::string reason(int error) { return std::generic_category().message(error); }

class Descriptor {
 public:
  explicit Descriptor(int fd) noexcept : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const noexcept { return fd_; }

 private:
  int fd_;
};

class FileSource final : public Source {
 public:
  FileSource(Descriptor descriptor, std::uint64_t size) noexcept
      : descriptor_(std::move(descriptor)), size_(size) {}

  std::uint64_t size() const noexcept override { return size_; }

  Status read(std::uint64_t offset, std::span<std::byte> out) const override {
    if (offset > size_ || out.size() > size_ - offset)
      return file_error(Detail::io, "read beyond the end of the file");
    while (!out.empty()) {
      const ssize_t n =
          ::pread(descriptor_.get(), out.data(), out.size(), static_cast<off_t>(offset));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0)
        return file_error(Detail::io,
                          "cannot read at byte " + std::to_string(offset) + ": " + reason(errno));
      if (n == 0)
        return file_error(Detail::io, "the file has shrunk: it had " + std::to_string(size_) +
                                          " bytes when opened and now ends at byte " +
                                          std::to_string(offset));
      offset += static_cast<std::uint64_t>(n);
      out = out.subspan(static_cast<std::size_t>(n));
    }
    return {};
  }

 private:
  Descriptor descriptor_;
  std::uint64_t size_;
};

class MemorySource final : public Source {
 public:
  explicit MemorySource(std::span<const std::byte> bytes) noexcept : bytes_(bytes) {}

  std::uint64_t size() const noexcept override { return bytes_.size(); }

  Status read(std::uint64_t offset, std::span<std::byte> out) const override {
    if (offset > bytes_.size() || out.size() > bytes_.size() - offset)
      return file_error(Detail::io, "read beyond the end of the buffer");
    std::copy_n(bytes_.data() + offset, out.size(), out.data());
    return {};
  }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace

Result<std::unique_ptr<const Source>> open_file(const std::filesystem::path& path) {
  if (path.empty()) return file_error(Detail::io, "the path of the GGUF file is empty");
  // Without O_NONBLOCK, opening a pipe that nobody writes to would hang.
  Descriptor descriptor(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY));
  if (descriptor.get() < 0) return file_error(Detail::io, "cannot open: " + reason(errno));
  struct stat info {};
  if (::fstat(descriptor.get(), &info) != 0)
    return file_error(Detail::io, "cannot inspect: " + reason(errno));
  if (!S_ISREG(info.st_mode)) return file_error(Detail::io, "is not a regular file");
  return {std::make_unique<FileSource>(std::move(descriptor),
                                       static_cast<std::uint64_t>(info.st_size))};
}

std::unique_ptr<const Source> memory_source(std::span<const std::byte> bytes) {
  return std::make_unique<MemorySource>(bytes);
}

}  // namespace engine::gguf
