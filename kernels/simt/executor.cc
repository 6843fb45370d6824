#include "kernels/simt/executor.h"

#include <algorithm>
#include <bit>
#include <new>
#include <numeric>
#include <string_view>
#include <utility>

#include "kernels/simt/thread.h"

namespace engine::simt {

// What ThreadSanitizer is told. Threads of a launch are ordered by barriers only, so the executor's own
// state, which all of them touch, is kept from its view.
namespace {
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
void release_to(void* object) { __tsan_release(object); }
void acquire_from(void* object) { __tsan_acquire(object); }
#else
class Unwatched {
 public:
  explicit Unwatched(const Fiber& = current->fiber) {}
};
void release_to(void*) {}
void acquire_from(void*) {}
#endif

constexpr unsigned bit(unsigned lane) { return 1u << lane; }

}  // namespace

constexpr unsigned kNamedBarriers = 16;

// Lanes that wait for one another. Two generations are alive at once: of the old one, lanes may not
// have run again when others arrive at the new one. A Generation is an address for ThreadSanitizer.
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

namespace {

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

}  // namespace

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

namespace {
constinit thread_local Executor* executor = nullptr;
}

Device::Device(const Options& options_) : options(options_), executor_(new Executor(*this)) {}
Device::~Device() = default;

Error Device::run(const Launch& launch) {
  try {
    return executor_->run(launch);
  } catch (const std::bad_alloc&) {
    return {Fault::out_of_memory,
            std::string(launch.kernel) + ": no memory for stacks or shared memory"};
  }
}

Executor::~Executor() {
  const Unwatched unwatched(host_);
  for (const auto& warp : warps_)
    for (Thread& thread : warp->threads) release(thread.fiber);
}

// --- a launch -----------------------------------------------------------------------------------

std::string Executor::check_limits(const Launch& launch) const {
  const Options& options = device_.options;
  const Limits* limits = find_limits(options.architecture);
  if (limits == nullptr) return "no limits are known of sm_" + std::to_string(options.architecture);
  const std::string on = " on sm_" + std::to_string(options.architecture);
  const auto most = [&](const char* what, std::size_t asked, std::size_t limit) {
    return std::string(what) + " " + std::to_string(asked) + ", of which there are at most " +
           std::to_string(limit) + on;
  };
  const dim3 block = launch.block, grid = launch.grid;
  if (block.x == 0 || block.y == 0 || block.z == 0 || grid.x == 0 || grid.y == 0 || grid.z == 0)
    return "an empty grid or block";
  const auto n_max = static_cast<unsigned>(limits->threads_per_block);
  const std::size_t n_threads = std::size_t{block.x} * block.y * block.z;
  if (block.x > n_max || block.y > n_max || block.z > 64 || n_threads > n_max)
    return most("threads in a block:", n_threads, n_max);
  if (grid.x > 0x7FFFFFFFu || grid.y > 65535 || grid.z > 65535)
    return "a grid above 2147483647 x 65535 x 65535";
  if (launch.shared_bytes > limits->shared_per_block_opt_in)
    return most("bytes of shared memory:", launch.shared_bytes, limits->shared_per_block_opt_in);
  if (launch.registers > limits->registers_per_thread)
    return most("registers of a thread:", static_cast<std::size_t>(launch.registers),
                static_cast<std::size_t>(limits->registers_per_thread));
  const int per_sm = resident_blocks_per_sm(*limits, static_cast<int>(n_threads),
                                            launch.shared_bytes, launch.registers);
  if (per_sm == 0) return "a block that needs more than an SM has" + on;
  const std::size_t n_resident =
      static_cast<std::size_t>(per_sm) * static_cast<std::size_t>(options.n_sms);
  const std::size_t n_blocks = std::size_t{grid.x} * grid.y * grid.z;
  if (launch.cooperative && n_blocks > n_resident)
    return most("blocks of a cooperative launch:", n_blocks, n_resident);
  return "";
}

Error Executor::run(const Launch& launch) {
  const Unwatched unwatched(host_);
  const std::string place = std::string(launch.kernel) + " (" + at(launch.where) + ")";
  if (current != nullptr) return {Fault::launch, place + ": a launch from within a kernel"};
  if (const std::string refused = check_limits(launch); !refused.empty())
    return {Fault::launch, place + " asks for " + refused};

  n_blocks_ = std::uint64_t{launch.grid.x} * launch.grid.y * launch.grid.z;
  n_started_ = n_finished_ = n_idle_yields_ = 0;
  // Random orders interleave blocks. ThreadSanitizer knows a thread by its fiber, so only blocks
  // that are resident together can be seen to race.
  std::uint64_t n_resident = device_.options.order == Order::random ? 4 : 1;
#if defined(ENGINE_SIMT_TSAN)
  n_resident = 16;
#endif
  if (launch.cooperative) n_resident = n_blocks_;
  random_state_ = device_.options.seed;
  order_.clear();
  if (device_.options.order == Order::random) {
    order_.resize(n_blocks_);
    std::iota(order_.begin(), order_.end(), 0u);
    for (std::size_t i = order_.size(); i > 1; --i) std::swap(order_[i - 1], order_[random() % i]);
  }

  Statistics statistics;
  Meter meter(statistics);
  const bool counts = device_.options.statistics;
  statistics_ = counts ? &statistics : nullptr;
  meter_ = counts ? &meter : nullptr;

  launch_ = &launch;
  error_ = {};
  make_resident(launch, static_cast<int>(std::min(n_resident, n_blocks_)));
  for (Block& block : blocks_) start_block(block);
  recent_ranges.fill({});
  adopt_current(host_);
  executor = this;
  release_to(&launch_begin_);
  current = next(false);
  switch_fiber(host_, current->fiber);
  current = nullptr;
  acquire_from(&launch_end_);
  executor = nullptr;
  if (error_.ok()) check_memory();
  if (!error_.ok()) abandon_threads();
  if (counts && error_.ok()) {
    meter.finish();
    statistics.kernel = launch.kernel;
    statistics.grid = launch.grid;
    statistics.block = launch.block;
    statistics.shared_bytes = launch.shared_bytes;
    device_.launches.push_back(std::move(statistics));
  }
  if (!error_.ok()) error_.message = place + ": " + error_.message;
  return std::exchange(error_, {});
}

// Gives the blocks that run at the same time their warps and shared memory.
void Executor::make_resident(const Launch& launch, int n_blocks) {
  const unsigned n_threads = launch.block.x * launch.block.y * launch.block.z;
  const int warps_per_block = static_cast<int>((n_threads + 31) / 32);
  n_warps_ = n_blocks * warps_per_block;
  while (static_cast<int>(warps_.size()) < n_warps_) {
    warps_.push_back(std::make_unique<Warp>());
    for (unsigned lane = 0; lane < 32; ++lane)
      warps_.back()->stacks.assign(warps_.back()->threads[lane].fiber, static_cast<int>(lane));
  }
  for (; n_prepared_ < n_warps_; ++n_prepared_)
    for (Thread& thread : warps_[static_cast<std::size_t>(n_prepared_)]->threads)
      prepare(thread.fiber, thread_main);
  ready_.assign(static_cast<std::size_t>(n_warps_ + 63) / 64, 0);
  warp_ = device_.options.order == Order::reverse
              ? 0
              : n_warps_ - 1;  // the first to go is the one after it

  blocks_.resize(static_cast<std::size_t>(n_blocks));
  for (int b = 0; b < n_blocks; ++b) {
    Block& block = blocks_[static_cast<std::size_t>(b)];
    // Memory of its own for every launch: ThreadSanitizer reports an address once.
    block.shared = Guarded(launch.shared_bytes);
    block.warps.clear();
    for (int w = 0; w < warps_per_block; ++w) {
      Warp& warp = *warps_[static_cast<std::size_t>(b * warps_per_block + w)];
      block.warps.push_back(&warp);
      warp.block = &block;
      warp.index = b * warps_per_block + w;
      warp.present = 0;
      for (unsigned lane = 0; lane < 32; ++lane) {
        Thread& thread = warp.threads[lane];
        const unsigned i = static_cast<unsigned>(w) * 32 + lane;
        if (i < n_threads) warp.present |= bit(lane);
        thread.index = {i % launch.block.x, i / launch.block.x % launch.block.y,
                        i / launch.block.x / launch.block.y};
        thread.block_shape = launch.block;
        thread.grid_shape = launch.grid;
        thread.shared = {};
        if (meter_ == nullptr && launch.shared_bytes >= 16)
          thread.shared = {reinterpret_cast<std::uintptr_t>(block.shared.begin()),
                           launch.shared_bytes};
        thread.block = &block;
        thread.warp = &warp;
        thread.lane = lane;
      }
    }
  }
}

// Puts the next block of the grid in place of one that has ended.
void Executor::start_block(Block& block) {
  const std::uint64_t i = n_started_++;
  const std::uint64_t chosen = !order_.empty()                           ? order_[i]
                               : device_.options.order == Order::reverse ? n_blocks_ - 1 - i
                                                                         : i;
  const dim3 grid = launch_->grid;
  block.index = {static_cast<unsigned>(chosen % grid.x),
                 static_cast<unsigned>(chosen / grid.x % grid.y),
                 static_cast<unsigned>(chosen / grid.x / grid.y)};
  block.n_live = 0;
  block.n_exited_barriers = -1;
  block.barriers.fill({});
  fill_poison(block.shared.begin(), block.shared.bytes());
  for (Warp* warp : block.warps) {
    block.n_live += std::popcount(warp->present);
    warp->live = warp->present;
    warp->ready = 0;
    warp->waiting = 0;
    warp->last = device_.options.order == Order::reverse ? 0 : 31;
    warp->at_barrier.fill(0);
    for (Group& group : warp->groups) group.arrived = 0;
    for (Thread& thread : warp->threads) {
      thread.block_index = block.index;
      thread.waits_for = nullptr;
      thread.n_barriers = 0;
      thread.copies.clear();
      thread.groups.clear();
    }
    make_ready(*warp, warp->present);
  }
}

void Executor::finish_block(Block& block) {
  if (const auto offset = block.shared.take_damage())
    fail(Fault::out_of_bounds, "a plain write at offset " + std::to_string(*offset) +
                                   " of the block's shared memory of " +
                                   std::to_string(block.shared.bytes()) + " bytes");
  ++n_finished_;
  if (meter_ != nullptr)
    for (const Warp* warp : block.warps) meter_->lanes_met(warp->index);
  if (n_started_ < n_blocks_) start_block(block);
}

// Abandoned fibers cannot be continued: they start anew. They touch nothing any more.
void Executor::abandon_threads() {
  n_prepared_ = 0;
  for (int w = 0; w < n_warps_; ++w)
    for (Thread& thread : warps_[static_cast<std::size_t>(w)]->threads)
      release_for(thread.fiber, &launch_end_);
  acquire_from(&launch_end_);
}

void Executor::check_memory() {
  if (const std::string damage = device_.memory.take_damage(); !damage.empty())
    error_ = {Fault::out_of_bounds, damage};
}

// --- which thread runs --------------------------------------------------------------------------

void Executor::thread_main() {
  fiber_entered();
  for (;;) {
    // A fault unwinds the thread that meets it; the others are abandoned.
    try {
      acquire_from(&executor->launch_begin_);
      executor->launch_->body(executor->launch_->context);
      release_to(&executor->launch_end_);
      executor->exit_thread();
      continue;
    } catch (const Faulted&) {
    } catch (const std::bad_alloc&) {
      executor->error_ = {Fault::out_of_memory, "no memory for what the executor keeps"};
    } catch (...) {
      executor->error_ = {Fault::exception, "the kernel threw an exception"};
    }
    const Unwatched unwatched;
    release_to(&executor->launch_end_);
    switch_fiber(current->fiber, executor->host_);
  }
}

void Executor::make_ready(Warp& warp, unsigned lanes) {
  if (lanes == 0) return;
  warp.ready |= lanes;
  ready_[static_cast<std::size_t>(warp.index) / 64] |= std::uint64_t{1} << (warp.index % 64);
}

// xorshift64*: Vigna, "An experimental exploration of Marsaglia's xorshift generators, scrambled" (2016).
std::uint64_t Executor::random() {
  std::uint64_t& s = random_state_;
  s += s == 0;
  s ^= s >> 12;
  s ^= s << 25;
  s ^= s >> 27;
  return (s * 0x2545F4914F6CDD1D) >> 16;
}

// The first warp with ready lanes after (backwards: before) `from`, around the end; -1 if there is none.
int Executor::next_ready_warp(int from, bool backwards) const {
  for (int step = 1; step <= n_warps_; ++step) {
    int i = backwards ? from - step : from + step;
    if (i < 0) i += n_warps_;
    if (i >= n_warps_) i -= n_warps_;
    if (is_ready(i)) return i;
    // Most of many warps wait most of the time: skip 64 of them at once.
    if (!backwards && i % 64 == 0 && ready_[static_cast<std::size_t>(i) / 64] == 0)
      step += std::min(63, n_warps_ - 1 - i);
  }
  return -1;
}

Thread* Executor::take_lane(Warp& warp, unsigned lane) {
  warp.ready &= ~bit(lane);
  warp.last = lane;
  if (warp.ready == 0)
    ready_[static_cast<std::size_t>(warp.index) / 64] &= ~(std::uint64_t{1} << (warp.index % 64));
  warp_ = warp.index;
  return &warp.threads[lane];
}

// The thread to run next; null if none can. leave_warp: another warp's, if there is one.
Thread* Executor::next(bool leave_warp) {
  const Order order = device_.options.order;
  Warp* warp = warps_[static_cast<std::size_t>(warp_)].get();
  unsigned last = warp->last;
  int from = warp_;
  if (order == Order::random) {
    const std::uint64_t r = random();
    leave_warp |= (r & 7) == 0;
    from = static_cast<int>((r >> 3) % static_cast<unsigned>(n_warps_));
    last = static_cast<unsigned>(r >> 20) & 31;
  }
  if (leave_warp || warp->ready == 0) {
    const int i = next_ready_warp(from, order == Order::reverse);
    if (i < 0) return nullptr;
    warp = warps_[static_cast<std::size_t>(i)].get();
    if (order != Order::random) last = warp->last;
  }
  if (order == Order::reverse) {
    const unsigned before = warp->ready & (bit(last) - 1);
    return take_lane(
        *warp, 31 - static_cast<unsigned>(std::countl_zero(before != 0 ? before : warp->ready)));
  }
  const unsigned after = warp->ready & ~(bit(last) | (bit(last) - 1));
  return take_lane(*warp,
                   static_cast<unsigned>(std::countr_zero(after != 0 ? after : warp->ready)));
}

void Executor::switch_to(Thread& thread) {
  Thread& self = *current;
  if (&self == &thread) return;
  current = &thread;
  switch_fiber(self.fiber, thread.fiber);
}

// "; block (0,0,0): threads …", of the first few blocks.
std::string Executor::describe_all_waits() const {
  constexpr std::size_t kEnough = 1000;
  std::string text;
  for (const Block& block : blocks_) {
    const std::string waits = describe_waits(block);
    if (!waits.empty()) text += "; " + name_block(block) + waits;
    if (text.size() > kEnough) break;
  }
  return text;
}

// Runs others until somebody makes the current thread ready.
void Executor::wait(const char* name, Where where) {
  Thread& self = *current;
  self.waits_for = name;
  self.where = where;
  Thread* thread = next(false);
  if (thread == nullptr) fail(Fault::deadlock, "no thread can run" + describe_all_waits());
  switch_to(*thread);
  self.waits_for = nullptr;
}

void Executor::yield(Where where) {
  Thread& self = *current;
  // When every thread has had many turns and used them to yield, nothing will change any more.
  constexpr std::uint64_t kTurns = 1000;
  if (++n_idle_yields_ > kTurns * 32 * static_cast<std::uint64_t>(n_warps_)) {
    self.waits_for = "spinning";
    self.where = where;
    fail(Fault::deadlock, "threads spin and nothing changes" + describe_all_waits());
  }
  self.waits_for = "spinning";
  self.where = where;
  make_ready(*self.warp, bit(self.lane));
  switch_to(*next(true));
  self.waits_for = nullptr;
}

void Executor::exit_thread() {
  const Unwatched unwatched;
  Thread& self = *current;
  Warp& warp = *self.warp;
  Block& block = *self.block;
  n_idle_yields_ = 0;
  if (stack_overflowed(self.fiber))
    fail(Fault::stack_overflow,
         "thread " + std::to_string(linear_index(self)) + " needs a larger stack");
  warp.live &= ~bit(self.lane);
  --block.n_live;
  if (block.n_exited_barriers < 0) {
    block.n_exited_barriers = static_cast<int>(self.n_barriers);
    block.first_exited = linear_index(self);
  } else if (static_cast<int>(self.n_barriers) != block.n_exited_barriers) {
    fail(Fault::unequal_barriers,
         name_block(block) + "thread " + std::to_string(block.first_exited) + " exited after " +
             std::to_string(block.n_exited_barriers) + " __syncthreads, thread " +
             std::to_string(linear_index(self)) + " after " + std::to_string(self.n_barriers));
  }
  for (const Group& group : warp.groups)
    if (group.arrived != 0 && (group.mask & bit(self.lane)) != 0)
      fail(Fault::bad_mask, name_block(block) + "thread " + std::to_string(linear_index(self)) +
                                " exited, but others wait for it with mask " + hex(group.mask) +
                                ": " + describe_waits(block));
  if (block.n_live > 0 && block.barriers[0].arrived == block.n_live) complete(block, 0);
  if (block.n_live == 0) finish_block(block);
  if (n_finished_ == n_blocks_) {
    switch_fiber(self.fiber, host_);
    return;
  }
  Thread* thread = next(false);
  if (thread == nullptr) wait("exit", self.where);  // reports who waits in vain
  switch_to(*thread);
}

void Executor::fail(Fault fault, const std::string& message) {
  error_ = {fault, message};
  throw Faulted();
}

// --- rendezvous ---------------------------------------------------------------------------------

void Executor::complete(Block& block, unsigned id) {
  Barrier& barrier = block.barriers[id];
  barrier.votes[barrier.generation & 1] = {barrier.n_true, barrier.arrived};
  ++barrier.generation;
  barrier.arrived = barrier.n_true = 0;
  n_idle_yields_ = 0;
  for (Warp* warp : block.warps) {
    const unsigned waited = std::exchange(warp->at_barrier[id], 0u);
    make_ready(*warp, waited);
    if (meter_ != nullptr && (waited != 0 || warp == current->warp)) meter_->lanes_met(warp->index);
  }
  if (statistics_ != nullptr) ++statistics_->block_barriers;
}

void fail(Fault fault, const std::string& what, Where where) {
  const uint3 b = current->block_index;
  executor->fail(fault, "block " + triple(b.x, b.y, b.z) + ", thread " +
                            std::to_string(linear_index(*current)) + " at " + at(where) + ": " +
                            what);
}

namespace {

// True once the group is complete, with its lanes but the current one made ready.
template <class Complete>
Group& meet(unsigned mask, const char* name, const void* in, void* out, Where where,
            const Complete& complete) {
  Thread& self = *current;
  Warp& warp = *self.warp;
  const unsigned me = bit(self.lane);
  self.in = in;
  self.out = out;
  if ((mask & me) == 0)
    fail(Fault::bad_mask,
         std::string(name) + " with mask " + hex(mask) + " that lacks the caller's lane", where);
  if ((mask & ~warp.live) != 0)
    fail(Fault::bad_mask,
         std::string(name) + " with mask " + hex(mask) + ", but only lanes " + hex(warp.live) +
             " are there",
         where);
  Group& group = warp.groups[static_cast<unsigned>(std::countr_zero(mask))];
  const auto others = [&] { return describe_waits(*self.block); };
  if (group.arrived == 0) {
    group.mask = mask;
    group.name = name;
    group.where = where;
  } else if (group.mask != mask) {
    fail(Fault::bad_mask,
         std::string(name) + " with mask " + hex(mask) + ", but others gave " + hex(group.mask) +
             ": " + others(),
         where);
  } else if (group.where != where || group.name != name) {
    fail(Fault::bad_collective,
         std::string(name) + ", but other lanes of the mask are elsewhere: " + others(), where);
  }
  if ((warp.waiting & mask & ~group.arrived) != 0)
    fail(Fault::bad_mask,
         std::string(name) + " with mask " + hex(mask) +
             ", some of whose lanes wait with another mask: " + others(),
         where);
  group.arrived |= me;
  if (group.arrived != mask) {
    warp.waiting |= me;
    executor->wait(name, where);
    return group;
  }
  complete(warp);
  group.arrived = 0;
  ++group.generation;
  warp.waiting &= ~mask;
  executor->make_ready(warp, mask & ~me);
  if (executor->statistics() != nullptr) {
    ++executor->statistics()->warp_collectives;
    if (mask == warp.live) executor->meter()->lanes_met(warp.index);
  }
  return group;
}

}  // namespace

void meet_warp(unsigned mask, const char* name, const void* in, void* out, Collective compute,
               Where where) {
  const Unwatched unwatched;
  meet(mask, name, in, out, where, [&](Warp& warp) {
    const void* inputs[32];
    void* outputs[32];
    for (unsigned lane = 0; lane < 32; ++lane) {
      inputs[lane] = warp.threads[lane].in;
      outputs[lane] = warp.threads[lane].out;
    }
    compute(inputs, outputs, mask);
  });
}

void sync_warp(unsigned mask, Where where) {
  const Unwatched unwatched;
  Group& group = current->warp->groups[static_cast<unsigned>(std::countr_zero(mask | 1u << 31))];
  char& order = group.order[group.generation & 1];
  release_to(&order);
  meet(mask, "__syncwarp", nullptr, nullptr, where, [](Warp&) {});
  acquire_from(&order);
}

Votes sync_block(const char* name, bool value, Where where) {
  const Unwatched unwatched;
  Thread& self = *current;
  Block& block = *self.block;
  Barrier& barrier = block.barriers[0];
  if (barrier.arrived == 0) {
    barrier.name = name;
    barrier.where = where;
  } else if (barrier.where != where || barrier.name != name) {
    fail(Fault::divergent_barrier, std::string(name) + ", but " + describe_waits(block), where);
  }
  const unsigned generation = barrier.generation & 1;
  release_to(&barrier.order[generation]);
  ++self.n_barriers;
  ++barrier.arrived;
  barrier.n_true += value;
  if (barrier.arrived == block.n_live) {
    self.where = where;
    executor->complete(block, 0);
  } else {
    self.warp->at_barrier[0] |= bit(self.lane);
    executor->wait(name, where);
  }
  acquire_from(&barrier.order[generation]);
  return barrier.votes[generation];
}

namespace {

void reach_named(int id, int n_threads, bool waits, const char* name, Where where) {
  const Unwatched unwatched;
  Thread& self = *current;
  if (id < 1 || id >= static_cast<int>(kNamedBarriers))
    fail(Fault::bad_collective, "barrier " + std::to_string(id) + ": ids go from 1 to 15", where);
  Block& block = *self.block;
  Barrier& barrier = block.barriers[static_cast<unsigned>(id)];
  if (n_threads <= 0 || n_threads % 32 != 0)
    fail(Fault::bad_collective,
         "a barrier of " + std::to_string(n_threads) + " threads: must be a multiple of 32", where);
  if (barrier.arrived > 0 && barrier.expected != n_threads)
    fail(Fault::unequal_barriers,
         "barrier " + std::to_string(id) + " of " + std::to_string(n_threads) +
             " threads, but others said " + std::to_string(barrier.expected) + ": " +
             describe_waits(block),
         where);
  barrier.expected = n_threads;
  char& order = barrier.order[barrier.generation & 1];
  release_to(&order);
  if (++barrier.arrived == n_threads) {
    executor->complete(block, static_cast<unsigned>(id));
  } else if (waits) {
    self.warp->at_barrier[static_cast<unsigned>(id)] |= bit(self.lane);
    executor->wait(name, where);
  }
  if (waits) acquire_from(&order);
}

}  // namespace

void sync_named(int id, int n_threads, Where where) {
  reach_named(id, n_threads, true, "named barrier", where);
}
void arrive_named(int id, int n_threads, Where where) {
  reach_named(id, n_threads, false, "named barrier", where);
}

void yield(Where where) {
  const Unwatched unwatched;
  executor->yield(where);
}

void count_grid_barrier(Where where) {
  if (!executor->launch().cooperative)
    fail(Fault::launch, "a grid barrier in a launch that is not cooperative", where);
  const uint3 b = current->block_index;
  const uint3 t = current->index;
  if (executor->statistics() != nullptr && (b.x | b.y | b.z | t.x | t.y | t.z) == 0)
    ++executor->statistics()->grid_barriers;
}

// --- memory -------------------------------------------------------------------------------------

namespace {

std::string access_name(std::size_t bytes, Direction direction, const char* space) {
  return std::string(direction == Direction::load ? "a load of " : "a store of ") +
         std::to_string(bytes) + " bytes of " + space + " memory";
}

void check_alignment(std::uintptr_t address, std::size_t bytes, Direction direction,
                     const char* space, Where where) {
  if (address % bytes != 0)
    fail(Fault::misaligned,
         access_name(bytes, direction, space) + " whose address is " +
             std::to_string(address % bytes) + " above a multiple of " + std::to_string(bytes),
         where);
}

bool in_shared(std::uintptr_t address, std::size_t bytes) {
  const Guarded& shared = current->block->shared;
  const auto begin = reinterpret_cast<std::uintptr_t>(shared.begin());
  return address >= begin && address + bytes <= begin + shared.bytes();
}

void count(Space space, Direction direction, std::uintptr_t address, std::size_t bytes, Where where,
           const Extent* buffer) {
  if (executor->meter() == nullptr) return;
  const Warp& warp = *current->warp;
  executor->meter()->access(warp.index, current->lane, warp.live, space, direction, address, bytes,
                            where, buffer != nullptr ? buffer->begin : 0,
                            buffer != nullptr ? buffer->bytes : 0);
}

}  // namespace

void check_global_slowly(std::uintptr_t address, std::size_t bytes, Direction direction,
                         Where where) {
  if (current == nullptr) return;  // a device function called by the host
  const Unwatched unwatched;
  const Memory& memory = executor->device().memory;
  const Extent* buffer = memory.find(address);
  if (buffer == nullptr || address + bytes > buffer->begin + buffer->bytes)
    fail(Fault::out_of_bounds,
         access_name(bytes, direction, "global") + (in_shared(address, 1)
                                                        ? " in the block's shared memory"
                                                        : " " + memory.describe(address)),
         where);
  check_alignment(address, bytes, direction, "global", where);
  if (executor->meter() != nullptr)
    count(Space::global, direction, address, bytes, where, buffer);
  else if (buffer->bytes >= 16)
    recent_ranges[address >> 12 & (kRanges - 1)] = {buffer->begin, buffer->bytes};
}

void check_shared_slowly(std::uintptr_t address, std::size_t bytes, Direction direction,
                         Where where) {
  const Unwatched unwatched;
  if (!in_shared(address, bytes)) {
    const Guarded& shared = current->block->shared;
    const auto offset =
        static_cast<std::ptrdiff_t>(address - reinterpret_cast<std::uintptr_t>(shared.begin()));
    fail(Fault::out_of_bounds,
         access_name(bytes, direction, "shared") + " at offset " + std::to_string(offset) + " of " +
             std::to_string(shared.bytes()),
         where);
  }
  check_alignment(address, bytes, direction, "shared", where);
  count(Space::shared, direction, address, bytes, where, nullptr);
}

void report_poison(const void* address, Space space, Where where) {
  if (current == nullptr || !executor->device().options.report_poison) return;
  const Unwatched unwatched;
  if (space == Space::global) {
    const Extent* buffer =
        executor->device().memory.find(reinterpret_cast<std::uintptr_t>(address));
    if (buffer == nullptr || !buffer->may_hold_poison) return;
    fail(Fault::poison,
         "a load of global memory that nobody wrote, " +
             executor->device().memory.describe(reinterpret_cast<std::uintptr_t>(address)),
         where);
  }
  const auto offset = static_cast<const std::byte*>(address) - current->block->shared.begin();
  fail(Fault::poison,
       "a load of shared memory that nobody wrote, or of an asynchronous copy that nobody waited "
       "for, at offset " +
           std::to_string(offset),
       where);
}

void check_flag(const void* p, std::size_t bytes, Where where) {
  const Unwatched unwatched;
  const auto address = reinterpret_cast<std::uintptr_t>(p);
  if (in_shared(address, bytes)) {
    check_alignment(address, bytes, Direction::store, "shared", where);
  } else {
    const Extent* buffer = executor->device().memory.find(address);
    if (buffer == nullptr || address + bytes > buffer->begin + buffer->bytes)
      fail(Fault::out_of_bounds, "an atomic " + executor->device().memory.describe(address), where);
    check_alignment(address, bytes, Direction::store, "global", where);
  }
}

void check_atomic(const void* p, std::size_t bytes, Where where) {
  check_flag(p, bytes, where);
  const Unwatched unwatched;
  if (executor->statistics() != nullptr) ++executor->statistics()->atomics;
}

void* shared_memory() { return current->block->shared.begin(); }

void copy_async(void* destination, const void* source, std::size_t bytes, Where where) {
  if (source != nullptr) check_global(source, bytes, Direction::load, where);
  check_shared(destination, bytes, Direction::store, where);
  fill_poison(destination, bytes);
  const Unwatched unwatched;
  current->copies.push_back({destination, source, bytes});
  if (executor->statistics() != nullptr) ++executor->statistics()->async_copies;
}

void commit_copies() {
  const Unwatched unwatched;
  Thread& self = *current;
  const std::size_t committed =
      std::accumulate(self.groups.begin(), self.groups.end(), std::size_t{0});
  self.groups.push_back(self.copies.size() - committed);
}

void wait_copies(std::size_t n_groups_left) {
  Thread& self = *current;
  if (self.groups.size() <= n_groups_left) return;
  const auto n_groups = static_cast<std::ptrdiff_t>(self.groups.size() - n_groups_left);
  const auto n = static_cast<std::ptrdiff_t>(
      std::accumulate(self.groups.begin(), self.groups.begin() + n_groups, std::size_t{0}));
  for (auto copy = self.copies.begin(); copy != self.copies.begin() + n; ++copy) {
    if (copy->source != nullptr)
      std::memcpy(copy->destination, copy->source, copy->bytes);
    else
      std::memset(copy->destination, 0, copy->bytes);
  }
  self.copies.erase(self.copies.begin(), self.copies.begin() + n);
  self.groups.erase(self.groups.begin(), self.groups.begin() + n_groups);
}

}  // namespace engine::simt
