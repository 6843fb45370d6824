#include "tools/progress_bar.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

namespace engine::tools {
namespace {

constexpr auto kPatience = std::chrono::seconds(1);
constexpr auto kRedraw = std::chrono::milliseconds(100);
constexpr int kWidth = 40;

}  // namespace

ProgressBar::ProgressBar(std::string label, bool wanted)
    : label_(std::move(label)),
      enabled_(wanted && ::isatty(STDERR_FILENO) == 1),
      next_draw_(Clock::now() + kPatience) {}

ProgressBar::~ProgressBar() {
  if (drawn_) std::fputs("\r\x1b[K", stderr);
}

void ProgressBar::update(double share) {
  const Clock::time_point now = Clock::now();
  if (!enabled_ || now < next_draw_) return;
  next_draw_ = now + kRedraw;
  drawn_ = true;
  const int n_full = static_cast<int>(std::clamp(share, 0.0, 1.0) * kWidth);
  const std::string bar = std::string(static_cast<std::size_t>(n_full), '#') +
                          std::string(static_cast<std::size_t>(kWidth - n_full), '.');
  std::fprintf(stderr, "\r%s [%s] %3.0f %%", label_.c_str(), bar.c_str(), 100 * share);
}

}  // namespace engine::tools
