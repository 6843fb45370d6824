#include "kernels/cpu/pool.h"

#include <unistd.h>

#include <cfenv>
#include <exception>
#include <new>

namespace engine::cpu {
namespace {

// Spins before a thread sleeps: long enough (about 50 us) to bridge the gaps between the ops of a
// token, short enough that an idle or oversubscribed machine soon gets its core back.
constexpr int kSpins = 2000;

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// The value of `word` once it differs from `seen`: spins for a while, then sleeps.
std::uint32_t wait_for_change(const std::atomic<std::uint32_t>& word, std::uint32_t seen) {
  for (int i = 0; i < kSpins; ++i) {
    const std::uint32_t now = word.load(std::memory_order_acquire);
    if (now != seen) return now;
    relax();
  }
  word.wait(seen, std::memory_order_acquire);
  return word.load(std::memory_order_acquire);
}

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
    : isa_(isa), leaf_(cpu::leaf(isa)), process_id_(static_cast<std::int64_t>(::getpid())) {
  std::vector<std::thread>& threads = shared_->threads;
  threads.reserve(static_cast<std::size_t>(n_threads));
  threads.emplace_back([this] { lead(); });
  try {
    while (n_threads_ < n_threads) {
      threads.emplace_back([this] { work(); });
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
  epoch_.fetch_add(1, std::memory_order_release);
  epoch_.notify_all();
  for (std::size_t i = 1; i < threads.size(); ++i) threads[i].join();
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

void Pool::work() {
  use_default_float_environment();
  std::uint32_t seen = 0;
  for (;;) {
    seen = wait_for_change(epoch_, seen);
    if (quit_.load(std::memory_order_relaxed)) return;
    run_parts();
  }
}

void Pool::Region::run_part(int p) const {
  const auto border = [&](int i) {
    return static_cast<int>(static_cast<std::int64_t>(n) * i / parts);
  };
  call(context, border(p), border(p + 1));
}

void Pool::run_parts() {
  for (;;) {
    const std::uint64_t claim = claims_.fetch_add(1, std::memory_order_acq_rel);
    const auto part = static_cast<int>(claim & 0xFFFF),
               parts = static_cast<int>((claim >> 16) & 0xFFFF);
    if (part >= parts) return;
    region_.run_part(part);
    if (unfinished_.fetch_sub(1, std::memory_order_acq_rel) == 1) unfinished_.notify_one();
  }
}

void Pool::fork_join(const Region& region) {
  region_ = region;
  unfinished_.store(static_cast<std::uint32_t>(region.parts), std::memory_order_relaxed);
  const std::uint64_t epoch = epoch_.load(std::memory_order_relaxed) + 1;
  claims_.store(epoch << 32 | static_cast<std::uint64_t>(region.parts) << 16,
                std::memory_order_release);
  epoch_.store(static_cast<std::uint32_t>(epoch), std::memory_order_release);
  epoch_.notify_all();
  run_parts();
  for (std::uint32_t left; (left = unfinished_.load(std::memory_order_acquire)) != 0;)
    wait_for_change(unfinished_, left);
}

}  // namespace engine::cpu
