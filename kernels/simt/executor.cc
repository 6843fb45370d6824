#include "kernels/simt/executor.h"

#include <algorithm>
#include <bit>
#include <new>
#include <numeric>
#include <utility>

#include "kernels/simt/state.h"

namespace engine::simt {

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
  const int registers =
      options.registers == nullptr ? 0 : options.registers(launch.function, options.architecture);
  if (registers > limits->registers_per_thread)
    return most("registers of a thread:", static_cast<std::size_t>(registers),
                static_cast<std::size_t>(limits->registers_per_thread));
  const int of_block = registers_of_block(static_cast<int>(n_threads), registers);
  if (of_block > limits->registers_per_block)
    return most("registers of a block:", static_cast<std::size_t>(of_block),
                static_cast<std::size_t>(limits->registers_per_block));
  const int per_sm =
      resident_blocks_per_sm(*limits, static_cast<int>(n_threads), launch.shared_bytes, registers);
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

  n_dot_products = 0;
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
    statistics.dot_products = n_dot_products;
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
#if defined(ENGINE_SIMT_TSAN)
  // Memory of its own, because nothing orders this block's threads behind those of the one before.
  block.shared = Guarded(launch_->shared_bytes);
#else
  fill_poison(block.shared.begin(), block.shared.bytes());
#endif
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
      thread.shared = {};
      if (meter_ == nullptr && launch_->shared_bytes >= 16)
        thread.shared = {reinterpret_cast<std::uintptr_t>(block.shared.begin()),
                         launch_->shared_bytes};
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

}  // namespace engine::simt
