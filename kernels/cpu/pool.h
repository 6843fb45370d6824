// The CPU backend's execution context: a fixed set of threads and the instruction-set level they
// run.
//
// One job runs at a time, on the pool's own threads: thread 0 (the leader) executes the job and
// calls ops; an op splits its work over all threads with parallel_for. Callers of run() only wait,
// so their floating-point environment does not matter and their thread does no arithmetic.
//
// Idle threads spin for a moment, which bridges the gaps inside a token, then sleep. No thread ever
// waits for another one to begin something, so more threads than cores, or a core taken by another
// process, cost little. Threads are not pinned: two processes would pin theirs to the same cores,
// and a pinned thread could not leave a core that another process keeps busy.
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
  // 1 <= n_threads <= 4096: a part's number fits 16 bits. Throws std::system_error or std::bad_alloc
  // if not even the leader can be started; further threads that cannot are done without: n_threads()
  // tells how many run.
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

  // Parts that parallel_for makes of n items, of at least `grain` (>= 1) items each. Part p covers
  // items part_begin(n, parts, p) .. part_begin(n, parts, p + 1) - 1 and belongs to thread
  // p * n_threads / parts, so the same n always gives a thread the same items.
  int n_parts(int n, int grain) const noexcept {
    return n_threads_ == 1 ? 1 : std::min(n_threads_ * kPartsPerThread, n / grain);
  }
  static int part_begin(int n, int parts, int p) noexcept {
    return static_cast<int>(static_cast<std::int64_t>(n) * p / parts);
  }

  // Within a job: fn(begin, end) for each part of 0..n-1. A thread takes its own parts first, then
  // those of threads that are behind. fn must not throw. With less than two parts the leader calls
  // fn(0, n) itself.
  template <class Fn>
  void parallel_for(int n, int grain, const Fn& fn) {
    const int parts = n_parts(n, grain);
    if (parts <= 1) {
      if (n > 0) fn(0, n);
      return;
    }
    fork_join({[](const void* context, int begin, int end) {
                 (*static_cast<const Fn*>(context))(begin, end);
               },
               &fn, n, parts});
  }

  // Parallel loops so far, without those that the leader ran by itself: each is a barrier. To be
  // read within a job, or while no job runs.
  std::uint64_t n_regions() const noexcept { return n_regions_; }

 private:
  // Parts are claimed, not handed out: a thread that the system has put aside holds nobody up unless
  // it was in the middle of a part. More parts than threads even out cores of different speed.
  static constexpr int kPartsPerThread = 8;

  struct Region {  // a parallel loop
    void (*call)(const void* context, int begin, int end) = nullptr;
    const void* context = nullptr;
    int n = 0, parts = 0;
    void run_part(int p) const {
      call(context, part_begin(n, parts, p), part_begin(n, parts, p + 1));
    }
  };

  // One thread's parts of the current region. `claims` holds the end of its parts in the high 16
  // bits and the next one to claim in the low 16: a fetch_add claims it. All that a thread needs to
  // begin lies in this one place: two lines, because processors fetch lines in pairs.
  struct alignas(128) Slot {
    std::atomic<std::uint32_t> claims{0};
    std::atomic<bool> asleep{false};
    // Counts calls to wake up. A sleeper waits on this and not on the claims, which may have come back
    // to what they were before it looks.
    std::atomic<std::uint32_t> wakes{0};
    Region region;  // does not change while a claimed part is unfinished
  };

  Slot& slot(int thread) noexcept { return slots_.get()[thread]; }
  void fork_join(const Region& region);
  int run_parts(Slot& of);
  void finish(int parts);
  void run_own_then_others(int thread);
  void lead();
  void work(int thread);
  bool wait_for_parts(Slot& own);
  static void wake(Slot& sleeper);

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

  std::unique_ptr<Slot[]> slots_;  // [n_threads]
  std::uint64_t n_regions_ = 0;
  alignas(128) std::atomic<std::uint32_t> unfinished_{0};  // parts of the current region
  alignas(128) std::atomic<bool> quit_{false};
};

// Threads worth starting: physical cores in the affinity mask, at most the cgroup CPU quota
// (rounded down, at least 1).
int default_threads();
// Threads that can run at a time: processors in the affinity mask, at most the cgroup CPU quota
// (rounded up).
int most_threads();

}  // namespace engine::cpu
