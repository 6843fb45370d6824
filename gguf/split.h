// Models split over several files: <prefix>-00001-of-00003.gguf, with the keys split.no (0-based),
// split.count and split.tensors.count.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "gguf/file.h"
#include "gguf/header.h"
#include "gguf/result.h"

namespace engine::gguf {

// One file of a model, whole or split.
struct Shard {
  std::unique_ptr<const Source> source;
  std::string name;  // the path, for messages; empty for the caller's memory
  Header header;
};

// Opens and checks one file on its own.
Result<Shard> open_shard(const std::filesystem::path& path);
Result<Shard> open_shard(std::unique_ptr<const Source> source, std::string name);

// split.count of a file, 1 if it is not split. Errors: TYPE for any key of a split, VALUE.
Result<int> shard_count(const Shard& shard);

// All shards of the model that `shard`, opened from `path`, is one of, in order of split.no.
// Errors: MISSING for an absent sibling, DUP and VALUE where the files contradict each other.
Result<std::vector<Shard>> open_siblings(const std::filesystem::path& path, Shard shard);

// `status` with the name of the file it is about in front.
Status in_file(Status status, const std::string& file_name);

}  // namespace engine::gguf
