// What kernels-bench measures: every CPU op at the shapes of Gemma 3 270M.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/subject.h"

namespace engine::bench {

struct Case {
  std::string name;  // "<op>/<shape>/rows:<n>/<cached or streamed>", op as in kernels/op/<op>.h
  std::function<std::unique_ptr<Subject>()> make;
};

std::vector<Case> all_cases();

}  // namespace engine::bench
