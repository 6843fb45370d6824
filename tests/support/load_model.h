// Everything that interprets a model file before its weights are read: what tests of broken files
// call.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>

#include "gguf/file.h"
#include "gguf/result.h"

namespace engine::test {

Status load(const std::filesystem::path& path);
Status load(std::span<const std::byte> bytes);
Status load(std::unique_ptr<const gguf::Source> source);

}  // namespace engine::test
