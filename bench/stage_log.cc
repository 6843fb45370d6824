#include "bench/stage_log.h"

#include <algorithm>
#include <cstdio>

namespace engine::bench {
namespace {

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::string line(const StageLog::Stage& stage, double pass_seconds, double bandwidth) {
  const double seconds = median(stage.seconds), rate = seconds > 0 ? stage.bytes / seconds : 0;
  char text[160];
  std::snprintf(text, sizeof text, "%-32s %6d %10.1f %6.1f %9.3f %8.2f %7.1f\n", stage.name.c_str(),
                stage.calls, seconds * 1e6, pass_seconds > 0 ? 100 * seconds / pass_seconds : 0,
                stage.bytes * 1e-6, rate * 1e-9, bandwidth > 0 ? 100 * rate / bandwidth : 0);
  return text;
}

}  // namespace

void StageLog::begin_pass() {
  for (Stage& stage : stages_) {
    stage.calls = 0;
    stage.bytes = 0;
    stage.seconds.push_back(0);
  }
  pass_seconds_.push_back(0);
  start_ = std::chrono::steady_clock::now();
}

void StageLog::end_pass() {
  pass_seconds_.back() =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

void StageLog::add(const std::string& name, double bytes, double seconds) {
  auto stage =
      std::find_if(stages_.begin(), stages_.end(), [&](const Stage& s) { return s.name == name; });
  if (stage == stages_.end()) {
    stages_.push_back({.name = name, .seconds = std::vector<double>(pass_seconds_.size())});
    stage = stages_.end() - 1;
  }
  ++stage->calls;
  stage->bytes += bytes;
  stage->seconds.back() += seconds;
}

std::string StageLog::report(double bandwidth) const {
  char header[160];
  std::snprintf(header, sizeof header, "%-32s %6s %10s %6s %9s %8s %7s\n", "stage", "calls", "us",
                "% time", "MB", "GB/s", "% roof");
  std::string text = header;
  Stage between = {.name = "(between)", .seconds = pass_seconds_};
  Stage all = {.name = "(all)", .seconds = pass_seconds_};
  const double pass_seconds = median(pass_seconds_);
  for (const Stage& stage : stages_) {
    text += line(stage, pass_seconds, bandwidth);
    all.calls += stage.calls;
    all.bytes += stage.bytes;
    for (std::size_t pass = 0; pass < pass_seconds_.size(); ++pass)
      between.seconds[pass] -= stage.seconds[pass];
  }
  return text + line(between, pass_seconds, bandwidth) + line(all, pass_seconds, bandwidth);
}

}  // namespace engine::bench
