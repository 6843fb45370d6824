// What the executor keeps of a running launch. Included by its own sources only.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/simt/executor.h"
#include "kernels/simt/thread.h"

namespace engine::simt {

// What ThreadSanitizer is told. Threads of a launch are ordered by barriers only, so the executor's own
// state, which all of them touch, is kept from its view.
#if defined(ENGINE_SIMT_TSAN)
class Unwatched {
 public:
  explicit Unwatched(Fiber& fiber = current->fiber) : fiber_(fiber) {
    watch_not();
    ++fiber_.n_unwatched;
  }
  ~Unwatched() {
    --fiber_.n_unwatched;
    watch_again();
  }

 private:
  Fiber& fiber_;
};
inline void release_to(void* object) { __tsan_release(object); }
inline void acquire_from(void* object) { __tsan_acquire(object); }
#else
class Unwatched {
 public:
  explicit Unwatched(const Fiber& = current->fiber) {}
};
inline void release_to(void*) {}
inline void acquire_from(void*) {}
#endif

constexpr unsigned bit(unsigned lane) { return 1u << lane; }

constexpr unsigned kNamedBarriers = 16;

// Lanes that wait for one another. Two generations are alive at once: of the old one, lanes may not
// have run again when others arrive at the new one. `order` holds an address for each, for ThreadSanitizer.
struct Group {
  unsigned mask = 0;
  unsigned arrived = 0;
  const char* name = nullptr;
  Where where;
  unsigned generation = 0;
  char order[2];
};

struct Warp {
  Block* block;
  int index;         // among the resident warps
  unsigned present;  // lanes that exist
  unsigned live;     // and have not exited
  unsigned ready;    // and could run, but do not
  unsigned last;     // lane that ran last
  unsigned waiting;  // lanes in a group
  std::array<unsigned, kNamedBarriers> at_barrier;
  std::array<Group, 32> groups;  // by lowest lane of the mask
  std::array<Thread, 32> threads;
  Stacks stacks{32};
};

struct Barrier {
  int arrived = 0;
  int n_true = 0;
  int expected = 0;  // of named barriers
  const char* name = nullptr;
  Where where;
  unsigned generation = 0;
  Votes votes[2];
  char order[2];
};

struct Block {
  std::vector<Warp*> warps;
  uint3 index;
  int n_live;
  int n_exited_barriers;  // __syncthreads that the first thread to exit had passed; -1 before
  unsigned first_exited;
  std::array<Barrier, kNamedBarriers> barriers;
  Guarded shared;
};

// Texts of messages, in report.cc.
unsigned linear_index(const Thread& thread);
std::string at(Where where);                             // "kernel.cu:12"
std::string triple(unsigned x, unsigned y, unsigned z);  // "(1,2,3)"
std::string hex(unsigned value);
std::string name_block(const Block& block);  // "block (1,2,3): "
std::string describe_waits(
    const Block& block);  // "threads 0-31 wait at kernel.cu:7 (__syncthreads); ..."

struct Faulted {};

// Runs one launch at a time; keeps stacks from one to the next.
class Executor {
 public:
  explicit Executor(Device& device) : device_(device) {}
  ~Executor();

  Error run(const Launch& launch);

  // Called on the fibers of the running launch.
  void wait(const char* name, Where where);
  void yield(Where where);
  void exit_thread();
  [[noreturn]] void fail(Fault fault, const std::string& message);
  void make_ready(Warp& warp, unsigned lanes);
  void complete(Block& block, unsigned id);
  void made_progress() { n_idle_yields_ = 0; }

  Device& device() { return device_; }
  const Launch& launch() const { return *launch_; }
  Statistics* statistics() { return statistics_; }
  Meter* meter() { return meter_; }

 private:
  static void thread_main();

  std::string check_limits(const Launch& launch) const;
  void make_resident(const Launch& launch, int n_blocks);
  void start_block(Block& block);
  void finish_block(Block& block);
  void check_memory();
  void abandon_threads();
  std::string describe_all_waits() const;
  Thread* next(bool leave_warp);
  int next_ready_warp(int from, bool backwards) const;
  Thread* take_lane(Warp& warp, unsigned lane);
  std::uint64_t random();
  void switch_to(Thread& thread);
  bool is_ready(int warp) const {
    return (ready_[static_cast<std::size_t>(warp) / 64] >> (warp % 64) & 1) != 0;
  }

  Device& device_;
  std::vector<std::unique_ptr<Warp>> warps_;  // the first n_warps_ belong to the launch
  std::vector<Block> blocks_;                 // resident
  int n_warps_ = 0;
  int n_prepared_ = 0;  // warps whose fibers stand in thread_main; the others need prepare()
  Fiber host_;

  const Launch* launch_ = nullptr;
  std::vector<std::uint64_t> ready_;  // a bit for each warp with ready lanes
  int warp_ = 0;                      // that runs
  std::uint64_t random_state_ = 0;
  std::vector<std::uint32_t>
      order_;  // of the grid's blocks; empty: ascending or, in reverse, descending
  std::uint64_t n_blocks_ = 0, n_started_ = 0, n_finished_ = 0;
  std::uint64_t n_idle_yields_ = 0;  // since a thread last did anything else
  Error error_;
  Statistics* statistics_ = nullptr;
  Meter* meter_ = nullptr;
  // Addresses for ThreadSanitizer: the host before all threads, all threads before the host.
  char launch_begin_ = 0, launch_end_ = 0;
};

// Of the launch that the calling OS thread runs; null outside.
inline constinit thread_local Executor* executor = nullptr;

}  // namespace engine::simt
