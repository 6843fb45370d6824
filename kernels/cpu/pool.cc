#include "kernels/cpu/pool.h"

#include <unistd.h>

#include <cfenv>
#include <chrono>
#include <exception>
#include <new>
#include <utility>

namespace engine::cpu {
namespace {

// How long a thread spins before it sleeps: long enough to bridge the gaps between the ops of a
// token, short enough that an idle machine soon gets its core back.
constexpr auto kSpinTime = std::chrono::microseconds(50);
constexpr int kSpinsPerCheck = 32;  // of the clock

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// True once ready() is; false if that takes longer than kSpinTime.
template <class Ready>
bool spin_until(const Ready& ready) {
  const auto end = std::chrono::steady_clock::now() + kSpinTime;
  do {
    for (int i = 0; i < kSpinsPerCheck; ++i) {
      if (ready()) return true;
      relax();
    }
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

constexpr std::uint32_t next_part(std::uint32_t claims) { return claims & 0xFFFF; }
constexpr std::uint32_t end_part(std::uint32_t claims) { return claims >> 16; }
constexpr bool has_parts(std::uint32_t claims) { return next_part(claims) < end_part(claims); }

// A thread starts with its creator's rounding mode and treatment of subnormals, which may be anything.
void use_default_float_environment() { std::fesetenv(FE_DFL_ENV); }

// Runs a job. The messages fit a string without an allocation: there may be no memory left.
Status status_of(const std::function<void()>& job) noexcept {
  try {
    job();
    return {};
  } catch (const std::bad_alloc&) {
    return Status(Code::out_of_memory, "out of memory");
  } catch (...) {
    return Status(Code::internal, "job has thrown");
  }
}

}  // namespace

Pool::Pool(int n_threads, Isa isa)
    : isa_(isa),
      leaf_(cpu::leaf(isa)),
      process_id_(static_cast<std::int64_t>(::getpid())),
      slots_(std::make_unique<Slot[]>(static_cast<std::size_t>(n_threads))) {
  std::vector<std::thread>& threads = shared_->threads;
  threads.reserve(static_cast<std::size_t>(n_threads));
  threads.emplace_back([this] { lead(); });
  try {
    while (n_threads_ < n_threads) {
      threads.emplace_back([this, thread = n_threads_] { work(thread); });
      ++n_threads_;
    }
  } catch (const std::exception&) {
    // The system is out of threads or memory; the threads that run do the work.
  }
}

Pool::~Pool() {
  if (static_cast<std::int64_t>(::getpid()) != process_id_) {
    static_cast<void>(shared_.release());
    return;
  }
  {
    std::lock_guard lock(shared_->mutex);
    shared_->stop = true;
  }
  shared_->changed.notify_all();
  std::vector<std::thread>& threads = shared_->threads;
  threads.front().join();
  quit_.store(true, std::memory_order_relaxed);
  for (std::size_t i = 1; i < threads.size(); ++i) {
    wake(slots_[i]);
    threads[i].join();
  }
}

Status Pool::run(const std::function<void()>& job) {
  if (static_cast<std::int64_t>(::getpid()) != process_id_)
    return Status(Code::forked,
                  "the process forked after the model was loaded: its threads do not exist here");
  Shared& shared = *shared_;
  std::unique_lock lock(shared.mutex);
  const std::uint64_t ticket = shared.next_ticket++;
  shared.changed.wait(lock, [&] { return shared.serving == ticket; });
  shared.job = &job;
  shared.job_done = false;
  shared.changed.notify_all();
  shared.changed.wait(lock, [&] { return shared.job_done; });
  ++shared.serving;
  Status status = std::move(shared.job_status);
  lock.unlock();
  shared.changed.notify_all();
  return status;
}

void Pool::lead() {
  use_default_float_environment();
  Shared& shared = *shared_;
  std::unique_lock lock(shared.mutex);
  for (;;) {
    shared.changed.wait(lock, [&] { return shared.stop || shared.job != nullptr; });
    if (shared.job == nullptr) return;
    const std::function<void()>& job = *shared.job;
    lock.unlock();
    Status status = status_of(job);
    lock.lock();
    shared.job = nullptr;
    shared.job_status = std::move(status);
    shared.job_done = true;
    shared.changed.notify_all();
  }
}

// Claims and runs parts of a slot until there are none; returns how many.
int Pool::run_parts(Slot& of) {
  int n = 0;
  // The load spares the others a write to a line that they may be reading.
  while (has_parts(of.claims.load(std::memory_order_relaxed))) {
    const std::uint32_t claims = of.claims.fetch_add(1, std::memory_order_acq_rel);
    if (!has_parts(claims)) break;
    of.region.run_part(static_cast<int>(next_part(claims)));
    ++n;
  }
  return n;
}

void Pool::finish(int parts) {
  if (parts == 0) return;
  const auto n = static_cast<std::uint32_t>(parts);
  if (unfinished_.fetch_sub(n, std::memory_order_acq_rel) == n) unfinished_.notify_one();
}

void Pool::run_own_then_others(int thread) {
  for (int i = 0; i < n_threads_; ++i) finish(run_parts(slot((thread + i) % n_threads_)));
}

void Pool::wake(Slot& sleeper) {
  sleeper.wakes.fetch_add(1, std::memory_order_release);
  sleeper.wakes.notify_one();
}

// Waits until the slot has parts; false if the pool ends instead.
bool Pool::wait_for_parts(Slot& own) {
  const auto ready = [&] {
    return has_parts(own.claims.load(std::memory_order_acquire)) ||
           quit_.load(std::memory_order_relaxed);
  };
  while (!spin_until(ready)) {
    const std::uint32_t seen = own.wakes.load(std::memory_order_acquire);
    // Either this thread sees the parts or the leader sees the flag: both store, then load.
    own.asleep.store(true, std::memory_order_seq_cst);
    if (!has_parts(own.claims.load(std::memory_order_seq_cst)) && !ready())
      own.wakes.wait(seen, std::memory_order_acquire);
    own.asleep.store(false, std::memory_order_relaxed);
  }
  return !quit_.load(std::memory_order_relaxed);
}

void Pool::work(int thread) {
  use_default_float_environment();
  while (wait_for_parts(slot(thread))) run_own_then_others(thread);
}

void Pool::fork_join(const Region& region) {
  ++n_regions_;
  unfinished_.store(static_cast<std::uint32_t>(region.parts), std::memory_order_relaxed);
  // The first of a thread's parts: the least p with p * n_threads / parts >= thread.
  const auto first_part = [&](int thread) {
    return static_cast<std::uint32_t>((thread * region.parts + n_threads_ - 1) / n_threads_);
  };
  // The leader's own first: whoever is done with its parts at once is to find these.
  for (int i = 0; i < n_threads_; ++i) {
    const int thread = i == 0 ? 0 : n_threads_ - i;
    Slot& s = slot(thread);
    const std::uint32_t first = first_part(thread), end = first_part(thread + 1);
    if (first == end) continue;
    s.region = region;
    s.claims.store(end << 16 | first, std::memory_order_seq_cst);
    if (s.asleep.load(std::memory_order_seq_cst)) wake(s);
  }
  run_own_then_others(0);
  const auto done = [&] { return unfinished_.load(std::memory_order_acquire) == 0; };
  if (spin_until(done)) return;
  for (std::uint32_t left; (left = unfinished_.load(std::memory_order_acquire)) != 0;)
    unfinished_.wait(left, std::memory_order_acquire);
}

}  // namespace engine::cpu
