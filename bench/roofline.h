// What this machine can do at most, measured: the roof that a kernel's speed is a fraction of.
#pragma once

#include "kernels/cpu/pool.h"

namespace engine::bench {

// Bytes a second that the pool's threads together read from memory: the best of a few passes over
// 256 MB in huge pages. Takes about 0.1 s; 0 if the memory is not to be had.
double read_bandwidth(cpu::Pool& pool);

// int16_blocks: int16 together with the float arithmetic that op/matmul.h asks for after every 32
// weights of a row, in its cheapest form (Q8_0, Q5_0): what a prompt's matmuls cannot exceed. Not for the scalar leaf.
enum class Multiply { int16, int16_blocks, fp32 };

// Multiply-adds a second of the pool's threads together, by instructions that depend on no memory:
// those that the pool's leaf uses, where it has several ways those for prompts; for the scalar leaf
// what every x86-64 has. Takes about 10 ms; 0 where there is no probe for the leaf.
double multiply_rate(cpu::Pool& pool, Multiply kind);

}  // namespace engine::bench
