// A program that knows nothing but the installed library: prints the code of a load that must fail.
#include <engine/engine.h>

#include <iostream>

int main() {
  const engine::Result<engine::Model> model = engine::Model::load("no-such-file.gguf");
  std::cout << (model ? "loaded" : name(model.status().code())) << '\n';
}
