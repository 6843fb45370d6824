#include "bench/measure.h"

#include <chrono>

namespace engine::bench {
namespace {

using Clock = std::chrono::steady_clock;

// Least seconds that a run can take here.
double roof_seconds(const Work& work, cpu::Pool& pool) {
  const double to_read =
      work.source == Source::memory ? static_cast<double>(work.bytes) / read_bandwidth(pool) : 0;
  const double rate = work.multiply_adds > 0 ? multiply_rate(pool, work.kind) : 0;
  return std::max(to_read, rate > 0 ? static_cast<double>(work.multiply_adds) / rate : 0);
}

// Seconds a run.
double time_runs(benchmark::State& state, Subject& subject, cpu::Pool& pool) {
  Clock::duration elapsed{};
  const Status status = pool.run([&] {
    const Clock::time_point start = Clock::now();
    for (auto _ : state) subject.run(pool);
    elapsed = Clock::now() - start;
  });
  if (!status.ok()) state.SkipWithError(status.message().c_str());
  return std::chrono::duration<double>(elapsed).count() / static_cast<double>(state.iterations());
}

}  // namespace

void measure(benchmark::State& state, Subject& subject, cpu::Pool& pool, bool& any_wrong) {
  const std::string wrong = subject.check(pool);
  if (!wrong.empty()) {
    any_wrong = true;
    state.SkipWithError(wrong.c_str());
    return;
  }
  const Work work = subject.work();
  const double roof = roof_seconds(work, pool);
  const double seconds = time_runs(state, subject, pool);
  state.counters["GB/s"] = static_cast<double>(work.bytes) / seconds / 1e9;
  if (work.multiply_adds > 0)
    state.counters["GOP/s"] = 2 * static_cast<double>(work.multiply_adds) / seconds / 1e9;
  if (roof > 0) state.counters["roof_pct"] = 100 * roof / seconds;
}

}  // namespace engine::bench
