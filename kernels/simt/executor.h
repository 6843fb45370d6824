// An emulated GPU: memory, limits, and the executor that runs kernels on it, thread by thread.
//
//   Device device({.architecture = 86});
//   Buffer<float> x(device, n);
//   Stream stream(device);
//   launch(scale_kernel, dim3(n / 256), dim3(256), 0, stream, x.data(), 2.0f);   // kernels/cuda/launch.cuh
//   if (!stream.error().ok()) ... stream.error().message
//
// A launch has finished when it returns. Kernels' threads are fibers of the calling OS thread, so the
// same inputs, schedule and seed give the same run. A device serves one OS thread at a time, and always
// the same one. Nothing here prints, aborts or exits: the first fault ends its launch and comes back as an
// Error. The thread that meets it is unwound; the others are abandoned where they stand, without
// running the destructors of their locals.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/simt/limits.h"
#include "kernels/simt/memory.h"
#include "kernels/simt/statistics.h"
#include "kernels/simt/vector_types.h"
#include "kernels/simt/where.h"

namespace engine::simt {

enum class Fault {
  none,
  launch,             // the device cannot run such a launch
  out_of_memory,      // on the host, for stacks or shared memory
  out_of_bounds,      // an access outside of every buffer or of the block's shared memory
  misaligned,         // an access whose address is no multiple of its size
  poison,             // a checked load of a word that nobody wrote
  divergent_barrier,  // threads of a block wait at different __syncthreads
  unequal_barriers,   // a thread exited after fewer or more __syncthreads than another of its block
  bad_mask,  // a mask without the caller, with an absent lane, or not the one other lanes gave
  bad_collective,  // lanes of one mask in different collectives, or arguments out of range
  deadlock,        // nobody can run, or spinning threads wait for something that nobody does
  stack_overflow,  // a thread's locals did not fit its stack
  exception,       // the kernel threw
};

struct Error {
  Fault fault = Fault::none;
  std::string message;  // kernel, block, threads, source lines

  bool ok() const { return fault == Fault::none; }
};

// Which of the runnable threads goes next. forward and reverse keep to a warp until it waits; random
// changes warp and block between any two rendezvous.
enum class Order { forward, reverse, random };

struct Options {
  int architecture = 86;  // of limits.h
  int n_sms = 16;         // bounds the grid of a cooperative launch
  Order order = Order::forward;
  std::uint64_t seed = 1;   // of Order::random
  bool statistics = false;  // see Device::launches(); several times slower
  bool report_poison = true;
  // Registers that a thread of the kernel takes on a card of the architecture, 0 if unknown: this compiler
  // does not say. Null: all unknown. Called before a launch.
  int (*registers)(const void* kernel, int architecture) = nullptr;
};

struct Launch {
  const char* kernel;    // for messages
  const void* function;  // for Options::registers
  Where where;
  dim3 grid, block;
  std::size_t shared_bytes;
  bool cooperative;                   // all blocks run at the same time
  void (*body)(const void* context);  // one thread of the kernel
  const void* context;
};

class Executor;

class Device {
 public:
  explicit Device(const Options& options = {});
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  Options options;  // may be changed between launches
  Memory memory;

  Error run(const Launch& launch);

  // One entry per launch that ran with options.statistics, oldest first.
  std::vector<Statistics> launches;

 private:
  std::unique_ptr<Executor> executor_;
};

// n elements of device memory, which the host may read and write between launches.
template <class T>
class Buffer {
 public:
  Buffer(Device& device, std::size_t n)
      : device_(device), data_(static_cast<T*>(device.memory.allocate(n * sizeof(T)))), n_(n) {}
  ~Buffer() { device_.memory.free(data_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  T* data() const { return data_; }
  std::size_t size() const { return n_; }
  T& operator[](std::size_t i) const { return data_[i]; }
  T* begin() const { return data_; }
  T* end() const { return data_ + n_; }

 private:
  Device& device_;
  T* data_;
  std::size_t n_;
};

// Launches in order; holds the first error, after which nothing runs any more.
class Stream {
 public:
  explicit Stream(Device& device) : device_(device) {}

  Device& device() { return device_; }
  const Error& error() const { return error_; }
  Error take_error() { return std::exchange(error_, {}); }
  void run(const Launch& launch) {
    if (error_.ok()) error_ = device_.run(launch);
  }

 private:
  Device& device_;
  Error error_;
};

}  // namespace engine::simt
