// gguf-show: what a GGUF file contains.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <iomanip>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "gguf/reader.h"
#include "tools/program.h"

namespace engine::tools {
namespace {

using gguf::KeyValue;
using gguf::Reader;
using gguf::Tensor;
using gguf::ValueType;

constexpr std::size_t kMaxElements = 8;     // of an array that are shown
constexpr std::size_t kMaxTextBytes = 200;  // of a string

std::string text_of(std::string_view value) {
  return '"' + gguf::printable(value, kMaxTextBytes) + '"';
}
std::string text_of(bool value) { return value ? "true" : "false"; }
template <class T>
std::string text_of(T value) {
  std::ostringstream text;
  text << +value;  // promoted, so that a u8 is no character
  return text.str();
}

std::string list_of(const std::vector<std::string>& shown, std::size_t n_elements) {
  std::string list = "[";
  for (const std::string& element : shown) list += (list.size() > 1 ? ", " : "") + element;
  if (shown.size() < n_elements) list += ", … " + std::to_string(n_elements) + " in all";
  return list + "]";
}

template <class T>
std::string value_of(const Reader& file, const KeyValue& entry) {
  if (!entry.is_array) return text_of(*file.get<T>(entry.key));
  std::vector<std::string> shown;
  const std::vector<T> values = *file.get_array<T>(entry.key);
  for (std::size_t i = 0; i < std::min(values.size(), kMaxElements); ++i)
    shown.push_back(text_of(static_cast<T>(values[i])));
  return list_of(shown, values.size());
}

std::string string_of(const Reader& file, const KeyValue& entry) {
  if (!entry.is_array) return text_of(*file.get<std::string_view>(entry.key));
  std::vector<std::string> shown;
  const gguf::StringArray values = *file.get_strings(entry.key);
  for (const std::string_view value : values) {
    if (shown.size() == kMaxElements) break;
    shown.push_back(text_of(value));
  }
  return list_of(shown, values.size());
}

std::string value_of(const Reader& file, const KeyValue& entry) {
  switch (entry.type) {
    case ValueType::u8:
      return value_of<std::uint8_t>(file, entry);
    case ValueType::i8:
      return value_of<std::int8_t>(file, entry);
    case ValueType::u16:
      return value_of<std::uint16_t>(file, entry);
    case ValueType::i16:
      return value_of<std::int16_t>(file, entry);
    case ValueType::u32:
      return value_of<std::uint32_t>(file, entry);
    case ValueType::i32:
      return value_of<std::int32_t>(file, entry);
    case ValueType::u64:
      return value_of<std::uint64_t>(file, entry);
    case ValueType::i64:
      return value_of<std::int64_t>(file, entry);
    case ValueType::f32:
      return value_of<float>(file, entry);
    case ValueType::f64:
      return value_of<double>(file, entry);
    case ValueType::boolean:
      return value_of<bool>(file, entry);
    case ValueType::string:
      return string_of(file, entry);
    case ValueType::array:
      break;  // the reader accepts no array of arrays
  }
  return {};
}

// "12.3 MB"
std::string size_of(std::uint64_t n_bytes) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(1);
  if (n_bytes < 1000)
    text << n_bytes << " B";
  else if (n_bytes < 1'000'000)
    text << static_cast<double>(n_bytes) / 1e3 << " kB";
  else
    text << static_cast<double>(n_bytes) / 1e6 << " MB";
  return text.str();
}

std::string header_text(const Reader& file) {
  return "GGUF version " + std::to_string(file.version()) + ", " + size_of(file.file_bytes()) +
         ", " + std::to_string(file.metadata().size()) + " metadata entries, " +
         std::to_string(file.tensors().size()) + " tensors, alignment " +
         std::to_string(file.alignment()) + "\n";
}

std::string metadata_text(const Reader& file) {
  std::string text = "\nMetadata\n";
  for (const KeyValue& entry : file.metadata())
    text += "  " + std::string(entry.key) + ": " + std::string(name(entry.type)) +
            (entry.is_array ? "[] " : " ") + value_of(file, entry) + "\n";
  return text;
}

std::string shape_of(const Tensor& tensor) {
  std::string text = "[";
  for (std::size_t i = 0; std::cmp_less(i, tensor.n_dims); ++i)
    text += (i > 0 ? ", " : "") + std::to_string(tensor.dims[i]);
  return text + "]";
}

std::string padded(std::string_view text, std::size_t width) {
  return std::string(text) + std::string(width - std::min(width, text.size()), ' ');
}

std::string tensors_text(const Reader& file) {
  std::size_t name_width = 0, shape_width = 0;
  for (const Tensor& tensor : file.tensors()) {
    name_width = std::max(name_width, tensor.name.size());
    shape_width = std::max(shape_width, shape_of(tensor).size());
  }
  const bool is_split = std::any_of(file.tensors().begin(), file.tensors().end(),
                                    [](const Tensor& t) { return t.shard > 0; });
  std::string text = "\nTensors: name, type, shape (row length first), size, position\n";
  for (const Tensor& tensor : file.tensors())
    text += "  " + padded(tensor.name, name_width) + "  " + padded(name(tensor.type), 7) + "  " +
            padded(shape_of(tensor), shape_width) + "  " + padded(size_of(tensor.n_bytes), 8) +
            "  " + std::to_string(tensor.offset) +
            (is_split ? " of file " + std::to_string(tensor.shard + 1) : "") + "\n";
  return text;
}

std::string types_text(const Reader& file) {
  struct Sum {
    std::size_t n_tensors = 0;
    std::uint64_t n_bytes = 0;
  };
  std::map<std::string_view, Sum> sums;
  for (const Tensor& tensor : file.tensors()) {
    Sum& sum = sums[name(tensor.type)];
    ++sum.n_tensors;
    sum.n_bytes += tensor.n_bytes;
  }
  std::string text = "\nTypes\n";
  for (const auto& [type, sum] : sums)
    text += "  " + padded(type, 7) + "  " + padded(size_of(sum.n_bytes), 8) + "  in " +
            std::to_string(sum.n_tensors) + " tensors\n";
  return text;
}

ExitCode show(const std::filesystem::path& path, StandardOutput& output) {
  const Result<Reader> file = Reader::open(path);
  if (!file) return fail(file.status());
  for (const std::string& warning : file->warnings()) log_warning(warning);
  output.write(header_text(*file));
  output.write(metadata_text(*file));
  output.write(tensors_text(*file));
  output.write(types_text(*file));
  return output.exit_code();
}

}  // namespace
}  // namespace engine::tools

int main(int argc, char** argv) {
  using namespace engine::tools;
  std::string path;
  const auto add_options = [&](CLI::App& app) {
    app.add_option("FILE", path, "a GGUF file, or any one file of a split model")->required();
  };
  return run_program({.name = "gguf-show",
                      .description = "Shows the metadata and tensors of a GGUF file.",
                      .add_options = add_options,
                      .run = [&](StandardOutput& output) { return show(path, output); }},
                     argc, argv);
}
