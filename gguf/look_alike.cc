#include "gguf/look_alike.h"

#include <algorithm>
#include <cstdint>
#include <span>

#include "gguf/cursor.h"

namespace engine::gguf {
namespace {

using namespace std::string_view_literals;

struct Signature {
  std::string_view start;
  std::string_view phrase;
};

constexpr Signature kSignatures[] = {
    {"lmgg"sv, "a legacy GGML file, to be converted to GGUF"},
    {"fmgg"sv, "a legacy GGMF file, to be converted to GGUF"},
    {"tjgg"sv, "a legacy GGJT file, to be converted to GGUF"},
    {"GGML"sv, "a legacy GGML file, to be converted to GGUF"},
    {"GGJT"sv, "a legacy GGJT file, to be converted to GGUF"},
    {"algg"sv, "a legacy GGLA adapter"},
    {"FUGG"sv, "a GGUF file with its bytes in reverse order"},
    {"version https://git-lfs"sv, "a Git LFS pointer, not the file it points to"},
    {"PK\x03\x04"sv, "a ZIP archive or PyTorch checkpoint"},
    {"\x89PNG"sv, "a PNG image"},
    {"\xFF\xD8\xFF"sv, "a JPEG image"},
    {"%PDF"sv, "a PDF document"},
    {"\x1F\x8B"sv, "a gzip archive"},
    {"\x28\xB5\x2F\xFD"sv, "a zstd archive"},
    {"\x7F"
     "ELF"sv,
     "a program"},
    {"\x80\x02"sv, "a Python pickle"},
};

constexpr char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool starts_with_ignoring_case(std::string_view text, std::string_view start) {
  return text.size() >= start.size() && std::equal(start.begin(), start.end(), text.begin(),
                                                   [](char a, char b) { return a == lower(b); });
}

// A safetensors file starts with the u64 length of a JSON object.
bool is_safetensors(std::string_view bytes) {
  constexpr std::uint64_t kLongestHeader = 100'000'000;
  if (bytes.size() < 9 || bytes[8] != '{') return false;
  return load<std::uint64_t>(std::as_bytes(std::span(bytes)).data()) <= kLongestHeader;
}

}  // namespace

std::string_view looks_like(std::string_view first_bytes) noexcept {
  for (const Signature& signature : kSignatures)
    if (first_bytes.starts_with(signature.start)) return signature.phrase;
  if (is_safetensors(first_bytes)) return "a safetensors file";
  std::string_view text = first_bytes;
  if (text.starts_with("\xEF\xBB\xBF"sv)) text.remove_prefix(3);
  text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
  if (starts_with_ignoring_case(text, "<!doctype html") || starts_with_ignoring_case(text, "<html"))
    return "an HTML page";
  if (text.starts_with("<?xml")) return "an XML document";
  if (text.starts_with('{')) return "JSON text";
  return {};
}

}  // namespace engine::gguf
