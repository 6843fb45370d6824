// Any bytes at all as a model file.
#include "tests/support/gguf_builder.h"
#include "tests/support/load_model.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // A block of exactly this size, so that a sanitizer sees the first byte read beyond it.
  engine::test::Bytes bytes;
  bytes.reserve(size);
  engine::test::append(bytes, data, size);
  (void)engine::test::load(std::span<const std::byte>(bytes));
  return 0;
}
