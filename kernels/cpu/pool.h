// The CPU backend's execution context: a fixed set of threads and the instruction-set level they
// run.
//
// One job runs at a time, on the pool's own threads: thread 0 (the leader) executes the job and
// calls ops; an op splits its work over all threads with parallel_for. Callers of run() only wait,
// so their floating-point environment does not matter and their thread does no arithmetic.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "gguf/result.h"
#include "kernels/cpu/select.h"

namespace engine::cpu {

class Pool {
 public:
  // n_threads >= 1. Threads that cannot be started are done without: n_threads() tells how many
  // run.
  explicit Pool(int n_threads, Isa isa = best_isa());
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  int n_threads() const noexcept { return n_threads_; }
  Isa isa() const noexcept { return isa_; }
  const Leaf& leaf() const noexcept { return leaf_; }

  // Runs `job` on the leader and waits for it. Any thread may call; calls queue up. An exception of
  // the job becomes out_of_memory (std::bad_alloc) or internal. After a fork the child gets
  // `forked`.
  Status run(const std::function<void()>& job);

  // Within a job: fn(begin, end) over a partition of 0..n-1, at least `grain` (>= 1) items a part, on
  // all threads. fn must not throw.
  template <class Fn>
  void parallel_for(int n, int grain, const Fn& fn) {
    const int most = n / grain;
    const int parts = n_threads_ == 1 ? 1 : std::min(n_threads_ * kPartsPerThread, most);
    if (parts <= 1) {
      if (n > 0) fn(0, n);
      return;
    }
    fork_join({[](const void* context, int begin, int end) {
                 (*static_cast<const Fn*>(context))(begin, end);
               },
               &fn, n, parts});
  }

 private:
  // Parts are claimed, not assigned: a thread that the system has put aside holds nobody up unless
  // it was in the middle of a part. More parts than threads even out cores of different speed.
  static constexpr int kPartsPerThread = 4;

  struct Region {  // a parallel loop: part p covers n*p/parts .. n*(p+1)/parts
    void (*call)(const void* context, int begin, int end) = nullptr;
    const void* context = nullptr;
    int n = 0, parts = 0;
    void run_part(int p) const;
  };

  void fork_join(const Region& region);
  void run_parts();
  void lead();
  void work();

  Isa isa_;
  const Leaf& leaf_;
  int n_threads_ = 1;
  std::int64_t process_id_;

  // The threads, and the hand-over of jobs to the leader. On the heap, because a forked child must
  // leave them behind: the threads, one of which waits on the condition variable, exist only in the
  // parent.
  struct Shared {
    std::vector<std::thread> threads;
    std::mutex mutex;
    std::condition_variable changed;
    std::uint64_t next_ticket = 0, serving = 0;
    const std::function<void()>* job = nullptr;
    bool job_done = false, stop = false;
    Status job_status;
  };
  std::unique_ptr<Shared> shared_ = std::make_unique<Shared>();

  // Hand-over of regions to the workers. claims_ holds, from the high bits down, the region's
  // number (32 bits), its parts (16) and the next part to claim (16): one fetch_add claims a part
  // of whichever region is current, and region_ does not change while a claimed part is unfinished.
  Region region_;
  alignas(64) std::atomic<std::uint64_t> claims_{0};
  alignas(64) std::atomic<std::uint32_t> epoch_{
      0};  // changes with every region: what idle workers wait on
  alignas(64) std::atomic<std::uint32_t> unfinished_{0};
  std::atomic<bool> quit_{false};
};

// Threads worth starting: physical cores in the affinity mask, at most the cgroup CPU quota
// (rounded down, at least 1).
int default_threads();

}  // namespace engine::cpu
