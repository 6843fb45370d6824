// What this machine can do at most, measured: the roof that a kernel's speed is a fraction of.
#pragma once

#include "kernels/cpu/pool.h"

namespace engine::bench {

// Bytes a second that the pool's threads together read from memory: the best of a few passes over
// 256 MB in huge pages. Takes about 0.1 s; 0 if the memory is not to be had.
double read_bandwidth(cpu::Pool& pool);

enum class Multiply { int16, fp32 };

// Multiply-adds a second of the pool's threads together, by instructions that depend on no memory:
// those that the pool's leaf uses, where it has several ways those for prompts; for the scalar leaf
// what every x86-64 has. Takes about 10 ms; 0 where there is no probe for the leaf.
double multiply_rate(cpu::Pool& pool, Multiply kind);

}  // namespace engine::bench
