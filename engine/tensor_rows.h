// Rows of a tensor as they are read from the file.
#pragma once

#include <cstddef>
#include <span>

#include "gguf/reader.h"

namespace engine {

// Bytes of one row of the file's form.
std::size_t row_bytes(const gguf::Tensor& tensor);

// Reads rows begin..end-1 into `to`, which has that many times row_bytes(). If check_values, NaN and
// infinity in what decoding multiplies with are an error (VALUE). Other errors: io, corrupt_file.
Status read_rows(const gguf::Reader& file, const gguf::Tensor& tensor, int begin, int end,
                 bool check_values, std::span<std::byte> to);

}  // namespace engine
