#include <algorithm>
#include <numeric>
#include <string>

#include "gguf/file_error.h"
#include "gguf/header.h"

namespace engine::gguf {
namespace {

// More than any file system holds. Sizes up to here can be added without wrapping.
constexpr std::uint64_t kMaxTensorBytes = std::uint64_t{1} << 48;

// a * b, both at most 2^63, capped above kMaxTensorBytes so that chains of products stay exact
// below.
std::uint64_t capped_product(std::uint64_t a, std::uint64_t b) {
  return a > kMaxTensorBytes / b ? kMaxTensorBytes + 1 : a * b;
}

// Blocks are counted before bytes, so that nothing is multiplied that will be divided again.
Status set_size(Tensor& tensor) {
  const TypeTraits& type = traits(tensor.type);
  if (type.block_bytes == 0)
    return file_error(Detail::unsupported, named(tensor) + " has type " + std::string(type.name) +
                                               ", which is not supported");
  if (tensor.row_elements() % type.block_elements != 0)
    return file_error(Detail::shape,
                      named(tensor) + ": rows of " + std::to_string(tensor.row_elements()) +
                          " are no multiple of the " + std::to_string(type.block_elements) +
                          " elements of a " + std::string(type.name) + " block");
  std::uint64_t n_bytes = tensor.row_elements() / type.block_elements;
  for (const std::uint64_t factor :
       {tensor.dims[1], tensor.dims[2], tensor.dims[3], std::uint64_t{type.block_bytes}})
    n_bytes = capped_product(n_bytes, factor);
  if (n_bytes > kMaxTensorBytes)
    return file_error(Detail::size, named(tensor) + ": its dimensions multiply to more than " +
                                        std::to_string(kMaxTensorBytes) + " bytes");
  tensor.n_bytes = n_bytes;
  return {};
}

Status outside(const Tensor& tensor, std::uint64_t data_start, std::uint64_t file_bytes) {
  // Below, the sum of offset, size and data start cannot wrap.
  if (tensor.offset > kMaxTensorBytes)
    return file_error(Detail::offset, named(tensor) + ": its offset " +
                                          std::to_string(tensor.offset) + " is beyond the " +
                                          std::to_string(file_bytes) + " bytes of the file");
  const std::uint64_t needed = data_start + tensor.offset + tensor.n_bytes;
  return file_error(Detail::offset, named(tensor) + " needs a file of at least " +
                                        std::to_string(needed) + " bytes, but this one has " +
                                        std::to_string(file_bytes) + "; is it truncated?");
}

// Subtractions only: no sum of untrusted numbers is formed before it is known to fit.
Status check_inside(const Tensor& tensor, std::uint64_t data_start, std::uint64_t file_bytes) {
  const bool inside = data_start <= file_bytes && tensor.offset <= file_bytes - data_start &&
                      tensor.n_bytes <= file_bytes - data_start - tensor.offset;
  return inside ? Status{} : outside(tensor, data_start, file_bytes);
}

Status check_aligned(const Tensor& tensor, std::uint64_t alignment) {
  if (tensor.offset % alignment == 0) return {};
  return file_error(Detail::align, named(tensor) + ": its offset " + std::to_string(tensor.offset) +
                                       " is no multiple of the alignment " +
                                       std::to_string(alignment));
}

// In order of offset, each tensor must end before the next begins.
Status check_disjoint(const std::vector<Tensor>& tensors) {
  std::vector<std::uint32_t> order(tensors.size());
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return tensors[a].offset < tensors[b].offset;
  });
  for (std::size_t i = 1; i < order.size(); ++i) {
    const Tensor& before = tensors[order[i - 1]];
    const Tensor& after = tensors[order[i]];
    if (after.offset - before.offset < before.n_bytes)
      return file_error(Detail::overlap, named(before) + " and " + named(after) +
                                             " share the bytes from " +
                                             std::to_string(after.offset) + " on");
  }
  return {};
}

std::uint64_t padding(std::uint64_t position, std::uint64_t alignment) {
  return (alignment - position % alignment) % alignment;
}

}  // namespace

Status place_tensors(Header& header, std::uint64_t file_bytes) {
  // n_bytes is at most the metadata limit, so the sum is small.
  const std::uint64_t data_start = header.n_bytes + padding(header.n_bytes, header.alignment);
  for (Tensor& tensor : header.tensors) {
    ENGINE_TRY(set_size(tensor));
    ENGINE_TRY(check_inside(tensor, data_start, file_bytes));
  }
  for (Tensor& tensor : header.tensors) {
    ENGINE_TRY(check_aligned(tensor, header.alignment));
    tensor.offset += data_start;
  }
  return check_disjoint(header.tensors);
}

std::uint64_t n_trailing_bytes(const Header& header, std::uint64_t file_bytes) noexcept {
  std::uint64_t end = header.n_bytes;
  for (const Tensor& tensor : header.tensors) end = std::max(end, tensor.offset + tensor.n_bytes);
  end += padding(end, header.alignment);
  return file_bytes > end ? file_bytes - end : 0;
}

}  // namespace engine::gguf
