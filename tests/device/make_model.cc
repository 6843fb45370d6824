// make-model: writes a made-up model file. Needs no package beyond the compiler's.
#include <cstdio>
#include <fstream>
#include <string_view>

#include "tests/support/synthetic_model.h"

int main(int argc, char** argv) {
  using namespace engine::test;
  const std::string_view size = argc == 3 ? argv[1] : "";
  if (size != "270m" && size != "small") {
    std::fputs("usage: make-model 270m|small FILE\n", stderr);
    return 2;
  }
  std::ofstream out(argv[2], std::ios::binary);
  write_synthetic_model(size == "270m" ? kSynthetic270m : kSyntheticSmall, out);
  out.close();
  if (out) return 0;
  std::fprintf(stderr, "error: %s cannot be written\n", argv[2]);
  return 1;
}
