#include <algorithm>
#include <string_view>

#include "kernels/simt/state.h"

namespace engine::simt {

namespace {

// "thread 3", "threads 0-31, 64"
std::string name_threads(const std::vector<unsigned>& threads) {
  std::string text = threads.size() == 1 ? "thread" : "threads";
  for (std::size_t i = 0; i < threads.size();) {
    std::size_t end = i + 1;
    while (end < threads.size() && threads[end] == threads[end - 1] + 1) ++end;
    text += (i == 0 ? " " : ", ") + std::to_string(threads[i]);
    if (end > i + 1) text += "-" + std::to_string(threads[end - 1]);
    i = end;
  }
  return text;
}

}  // namespace

unsigned linear_index(const Thread& thread) {
  return (thread.index.z * thread.block_shape.y + thread.index.y) * thread.block_shape.x +
         thread.index.x;
}

std::string at(Where where) {
  std::string_view file = where.file;
  if (const auto slash = file.rfind('/'); slash != file.npos) file.remove_prefix(slash + 1);
  return std::string(file) + ":" + std::to_string(where.line);
}

std::string triple(unsigned x, unsigned y, unsigned z) {
  return "(" + std::to_string(x) + "," + std::to_string(y) + "," + std::to_string(z) + ")";
}

std::string hex(unsigned value) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text = "0x";
  for (int shift = 28; shift >= 0; shift -= 4) text += kDigits[value >> shift & 15];
  return text;
}

// "block (0,0,0): "
std::string name_block(const Block& block) {
  return "block " + triple(block.index.x, block.index.y, block.index.z) + ": ";
}

// "threads 0-31 wait at a.cu:7 (__syncthreads); thread 40 waits at …", the first few places.
std::string describe_waits(const Block& block) {
  struct Wait {
    const char* name;
    Where where;
    std::vector<unsigned> threads;
  };
  std::vector<Wait> waits;
  for (const Warp* warp : block.warps) {
    for (unsigned lane = 0; lane < 32; ++lane) {
      const Thread& thread = warp->threads[lane];
      if ((warp->live & bit(lane)) == 0 || thread.waits_for == nullptr) continue;
      auto found = std::ranges::find_if(waits, [&](const Wait& w) {
        return w.where == thread.where && std::string_view(w.name) == thread.waits_for;
      });
      if (found == waits.end())
        found = waits.insert(waits.end(), {thread.waits_for, thread.where, {}});
      found->threads.push_back(linear_index(thread));
    }
  }
  std::string text;
  constexpr std::size_t kShown = 4;
  for (std::size_t i = 0; i < std::min(waits.size(), kShown); ++i) {
    const Wait& wait = waits[i];
    text += (i == 0 ? "" : "; ") + name_threads(wait.threads) +
            (wait.threads.size() == 1 ? " waits at " : " wait at ") + at(wait.where) + " (" +
            wait.name + ")";
  }
  return waits.size() > kShown ? text + "; and others" : text;
}

}  // namespace engine::simt
