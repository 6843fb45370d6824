// One run of Google Benchmark over a subject.
#pragma once

#include <benchmark/benchmark.h>

#include "bench/subject.h"

namespace engine::bench {

// Checks the subject, then times its runs within one job of the pool, so that the hand-over of jobs
// is not timed. A wrong result ends the benchmark with an error and sets `any_wrong`.
//
// Counters: GB/s (Work::bytes, 10^9), GOP/s (two operations a multiply-add), and roof_pct, the share
// of what the machine can do: the roof is the longer of bytes / read_bandwidth() and multiply-adds /
// multiply_rate(), each measured just before. Data that comes from a cache has no roof in bytes, and
// an op with neither has no roof_pct.
void measure(benchmark::State& state, Subject& subject, cpu::Pool& pool, bool& any_wrong);

}  // namespace engine::bench
