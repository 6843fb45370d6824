#include "tests/support/load_model.h"

#include <utility>

#include "engine/config.h"
#include "engine/tensors.h"
#include "gguf/reader.h"
#include "tokenizer/vocab.h"

namespace engine::test {
namespace {

Status interpret(const Result<gguf::Reader>& file) {
  if (!file) return file.status();
  ENGINE_ASSIGN(const Config config, Config::from_file(*file));
  ENGINE_ASSIGN(const TensorTable tensors, TensorTable::from_file(*file, config));
  ENGINE_ASSIGN(const tokenizer::Vocab vocab, tokenizer::Vocab::from_file(*file, config.n_vocab));
  return {};
}

}  // namespace

Status load(const std::filesystem::path& path) { return interpret(gguf::Reader::open(path)); }
Status load(std::span<const std::byte> bytes) { return interpret(gguf::Reader::open(bytes)); }
Status load(std::unique_ptr<const gguf::Source> source) {
  return interpret(gguf::Reader::open(std::move(source)));
}

}  // namespace engine::test
