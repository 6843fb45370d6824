#include "tests/support/ptxas_table.h"

#include <cxxabi.h>
#include <elf.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <regex>
#include <sstream>
#include <vector>

extern "C" const char __executable_start;  // the linker's: where the program begins

namespace engine::test {
namespace {

// As tests/cuda/ptxas_test.py names kernels: without namespaces, result and parameters.
std::string demangled(const char* symbol) {
  const std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(symbol, nullptr, nullptr, nullptr), std::free);
  if (text == nullptr) return symbol;
  // Namespaces first, so that only the parameters are left in parentheses.
  static const std::regex scopes(R"(engine::(simt|op|gguf)::|\(anonymous namespace\)::|^void )");
  static const std::regex parameters(R"(\(.*\)$)");
  return std::regex_replace(std::regex_replace(text.get(), scopes, ""), parameters, "");
}

// The functions of this program by address, local ones included, which dladdr does not know.
std::map<std::uintptr_t, std::string> read_symbols() {
  std::ifstream file("/proc/self/exe", std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  const auto read = [&]<class T>(std::size_t at, T value) {
    std::memcpy(&value, bytes.data() + at, sizeof(T));
    return value;
  };
  const auto header = read(0, Elf64_Ehdr{});
  const auto section = [&](std::size_t i) {
    return read(header.e_shoff + i * sizeof(Elf64_Shdr), Elf64_Shdr{});
  };
  std::map<std::uintptr_t, std::string> functions;
  std::uintptr_t start = 0;
  for (std::size_t i = 0; i < header.e_shnum; ++i) {
    const Elf64_Shdr symbols = section(i);
    if (symbols.sh_type != SHT_SYMTAB) continue;
    const char* const names = bytes.data() + section(symbols.sh_link).sh_offset;
    for (std::size_t at = 0; at < symbols.sh_size; at += sizeof(Elf64_Sym)) {
      const auto symbol = read(symbols.sh_offset + at, Elf64_Sym{});
      const char* const name = names + symbol.st_name;
      if (std::strcmp(name, "__executable_start") == 0) start = symbol.st_value;
      if (std::strstr(name, "_kernel") != nullptr) functions[symbol.st_value] = name;
    }
  }
  std::map<std::uintptr_t, std::string> loaded;
  const std::uintptr_t moved = reinterpret_cast<std::uintptr_t>(&__executable_start) - start;
  for (const auto& [address, name] : functions) loaded[address + moved] = name;
  return loaded;
}

// Registers by kernel and architecture.
using Table = std::map<std::string, std::map<int, int>>;

Table read_table() {
  std::ifstream file(ENGINE_SOURCE_DIR "/tests/cuda/ptxas.tsv");
  Table table;
  std::string line, cell;
  std::getline(file, line);  // who wrote it
  std::vector<int> architectures;
  while (std::getline(file, line)) {
    std::istringstream cells(line);
    std::string kernel;
    std::getline(cells, kernel, '\t');
    for (std::size_t i = 0; std::getline(cells, cell, '\t'); ++i)
      if (kernel == "kernel")
        architectures.push_back(std::stoi(cell.substr(3)));  // "sm_75"
      else
        table[kernel][architectures.at(i)] = std::stoi(cell);
  }
  return table;
}

}  // namespace

std::string kernel_name(const void* kernel) {
  static const std::map<std::uintptr_t, std::string> symbols = read_symbols();
  const auto found = symbols.find(reinterpret_cast<std::uintptr_t>(kernel));
  return found == symbols.end() ? "" : demangled(found->second.c_str());
}

std::optional<int> registers_of(const void* kernel, int architecture) {
  static const Table table = read_table();
  static std::map<const void*, std::string> names;
  const auto [name, is_first] = names.try_emplace(kernel);
  if (is_first) name->second = kernel_name(kernel);
  const auto row = table.find(name->second);
  if (row == table.end()) return {};
  const auto registers = row->second.find(architecture);
  if (registers == row->second.end()) return {};
  return registers->second;
}

}  // namespace engine::test
