// What the stages of a pass cost: calls, time and bytes, pass by pass.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace engine::bench {

// Not thread-safe: ops are called by one thread, the pool's leader.
class StageLog {
 public:
  struct Stage {
    std::string name;
    int calls = 0;                // of one pass
    double bytes = 0;             // of one pass
    std::vector<double> seconds;  // of each pass
  };

  // Everything until the next begin_pass belongs to one pass.
  void begin_pass();
  void end_pass();

  // Times fn() as a part of the stage `name`, which moves `bytes`.
  template <class Fn>
  void time(const std::string& name, double bytes, const Fn& fn) {
    const auto start = std::chrono::steady_clock::now();
    fn();
    add(name, bytes,
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }

  // In the order of their first calls.
  const std::vector<Stage>& stages() const { return stages_; }

  // One line a stage in the order of their first calls, and what lies between the stages: medians
  // over the passes, and the share of `bandwidth`, in bytes a second, that the bytes make.
  std::string report(double bandwidth) const;

 private:
  void add(const std::string& name, double bytes, double seconds);

  std::vector<Stage> stages_;
  std::vector<double> pass_seconds_;  // of each pass from begin to end
  std::chrono::steady_clock::time_point start_;
};

}  // namespace engine::bench
