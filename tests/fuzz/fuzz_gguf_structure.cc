// A valid model file after one to eight changes of single fields and a few changed bytes: gets past
// the first checks, where arbitrary bytes rarely do.
#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>
#include <vector>

#include "gguf/reader.h"
#include "tests/fuzz/choices.h"
#include "tests/support/load_model.h"
#include "tests/support/tiny_model.h"

namespace engine::test {
namespace {

constexpr std::uint64_t kOne = 1;
constexpr std::uint64_t kEdges[] = {
    0,          1,          2,          3,          4,          6,          7,
    8,          15,         16,         31,         32,         33,         63,
    64,         65,         255,        256,        257,        511,        512,
    513,        65'535,     65'536,     65'537,     1u << 20,   0x7FFFFFFF, 0x80000000,
    0xFFFFFFFF, kOne << 32, kOne << 60, kOne << 61, kOne << 62, kOne << 63, ~(kOne << 63),
    ~kOne,      ~kOne + 1};

std::uint64_t number(Choices& choose) {
  return choose.byte() % 4 == 0 ? choose.bits() : choose.of(kEdges) - choose.byte() % 2;
}

FileEntry& any_entry(GgufFile& file, Choices& choose) {
  return file.entries[choose.below(file.entries.size())];
}
FileTensor& any_tensor(GgufFile& file, Choices& choose) {
  return file.tensors[choose.below(file.tensors.size())];
}

void change_header(GgufFile& file, Choices& choose) {
  switch (choose.below(4)) {
    case 0:
      file.version = static_cast<std::uint32_t>(number(choose));
      break;
    case 1:
      file.claimed_n_entries = number(choose);
      break;
    case 2:
      file.claimed_n_tensors = number(choose);
      break;
    case 3:
      file.tail.resize(choose.byte());
      break;
  }
}

// Overwrites up to eight bytes of a value: a whole scalar, an array's type and count, an element.
void overwrite(Bytes& value, Choices& choose) {
  if (value.empty()) return;
  const std::uint64_t bits = number(choose);
  const std::size_t at = choose.below(value.size());
  std::memcpy(&value[at], &bits, std::min(value.size() - at, 1 + choose.below(8)));
}

void change_entry(GgufFile& file, Choices& choose) {
  FileEntry& entry = any_entry(file, choose);
  switch (choose.below(8)) {
    case 0:
      entry.claimed_key_size = number(choose);
      break;
    case 1:
      entry.key = choose.text(16);
      break;
    case 2:
      entry.type = static_cast<std::uint32_t>(choose.below(16));
      break;
    case 3:
      overwrite(entry.value, choose);
      break;
    case 4:
      entry.value.resize(choose.byte());
      break;
    case 5:
      file.entries.push_back(entry);
      break;
    case 6:
      std::swap(entry, any_entry(file, choose));
      break;
    case 7:
      file.remove(std::string(entry.key));
      break;
  }
}

// Keys that the model does not have by itself.
void add_entry(GgufFile& file, Choices& choose) {
  constexpr const char* kKeys[] = {"general.alignment",
                                   "gemma3.attention.sliding_window_pattern",
                                   "gemma3.rope.dimension_count",
                                   "gemma3.rope.local.freq_base",
                                   "gemma3.rope.freq_base_swa",
                                   "gemma3.rope.scaling.factor",
                                   "gemma3.rope.scaling.type",
                                   "gemma3.final_logit_softcapping",
                                   "tokenizer.ggml.eot_token_id",
                                   "tokenizer.chat_template",
                                   "split.count",
                                   "split.no"};
  const char* key = choose.of(kKeys);
  switch (choose.below(6)) {
    case 0:
      file.set(key, static_cast<std::uint32_t>(number(choose)));
      break;
    case 1:
      file.set(key, std::bit_cast<float>(static_cast<std::uint32_t>(number(choose))));
      break;
    case 2:
      file.set(key, choose.text(32));
      break;
    case 3:
      file.set(key, static_cast<std::uint16_t>(number(choose)));
      break;
    case 4:
      file.set_array(key, std::vector<bool>(choose.below(16), choose.byte() % 2 == 0));
      break;
    case 5:
      file.set_raw_array(key, static_cast<gguf::ValueType>(choose.below(14)), number(choose),
                         Bytes(choose.byte()));
      break;
  }
}

void change_tensor(GgufFile& file, Choices& choose) {
  FileTensor& tensor = any_tensor(file, choose);
  switch (choose.below(10)) {
    case 0:
      tensor.name = choose.text(70);
      break;
    case 1:
      tensor.claimed_name_size = number(choose);
      break;
    case 2:
      tensor.claimed_n_dims = static_cast<std::uint32_t>(number(choose));
      break;
    case 3:
      tensor.dims[choose.below(tensor.dims.size())] = number(choose);
      break;
    case 4:
      tensor.dims.push_back(number(choose));
      break;
    case 5:
      tensor.type = static_cast<std::uint32_t>(choose.below(48));
      break;
    case 6:
      tensor.offset = number(choose);
      break;
    case 7:
      tensor.data.resize(choose.below(1024));
      break;
    case 8:
      file.tensors.push_back(tensor);
      break;
    case 9:
      std::swap(tensor.name, any_tensor(file, choose).name);
      break;
  }
}

void change(GgufFile& file, Choices& choose) {
  switch (choose.below(8)) {
    case 0:
      return change_header(file, choose);
    case 1:
    case 2:
    case 3:
      return change_entry(file, choose);
    case 4:
      return add_entry(file, choose);
    case 5:
      return file.remove_tensor(std::string(any_tensor(file, choose).name));
    default:
      return change_tensor(file, choose);
  }
}

void change_bytes(Bytes& bytes, std::size_t n_metadata, Choices& choose) {
  for (std::size_t n = choose.below(4); n > 0; --n)
    bytes[choose.bits() % n_metadata] = static_cast<std::byte>(choose.byte());
  if (choose.byte() % 8 == 1) bytes.resize(choose.bits() % bytes.size());
}

// Every tensor of a file that was accepted can be read to its last byte.
void read_tensors(const Bytes& bytes) {
  const auto file = gguf::Reader::open(std::span<const std::byte>(bytes));
  if (!file) return;
  for (const gguf::Tensor& tensor : file->tensors()) {
    Bytes data(tensor.n_bytes);
    if (!file->read(tensor, 0, data).ok()) __builtin_trap();
  }
}

}  // namespace
}  // namespace engine::test

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace engine::test;
  static const GgufFile valid =
      tiny_model(engine::gguf::Type::q8_0, {.n_layers = 2, .d_ff = 32, .n_heads = 4});
  Choices choose({data, size});
  GgufFile file = valid;
  for (std::size_t n = 1 + choose.below(8); n > 0 && !choose.empty(); --n) change(file, choose);
  Bytes bytes = file.build();
  change_bytes(bytes, file.metadata().size(), choose);
  bytes.shrink_to_fit();
  (void)load(std::span<const std::byte>(bytes));
  read_tensors(bytes);
  return 0;
}
