// A bar on standard error for what takes more than a second. Nothing is drawn unless that is a
// terminal.
#pragma once

#include <chrono>
#include <string>

namespace engine::tools {

class ProgressBar {
 public:
  ProgressBar(std::string label, bool wanted);
  ~ProgressBar();  // leaves an empty line behind
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void update(double share);  // 0..1

 private:
  using Clock = std::chrono::steady_clock;

  std::string label_;
  bool enabled_;
  bool drawn_ = false;
  Clock::time_point next_draw_;
};

}  // namespace engine::tools
