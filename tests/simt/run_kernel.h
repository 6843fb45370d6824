// Runs kernels in the executor under several schedules.
#pragma once

#include "kernels/simt/simt.h"

// simt.h comes first, as it does where it is included by the command line.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/ptx.cuh"

namespace engine::simt {

template <class... P, class... A>
Error run(Device& device, void (*kernel)(P...), const Grid& grid, dim3 block,
          std::size_t shared_bytes, A&&... arguments) {
  Stream stream(device);
  launch(kernel, grid, block, shared_bytes, stream, std::forward<A>(arguments)...);
  return stream.take_error();
}

template <class... P, class... A>
Error run_cooperative(Device& device, void (*kernel)(P...), const Grid& grid, dim3 block,
                      std::size_t shared_bytes, A&&... arguments) {
  Stream stream(device);
  launch_cooperative(kernel, grid, block, shared_bytes, stream, std::forward<A>(arguments)...);
  return stream.take_error();
}

inline void expect_ok(const Error& error) { EXPECT_TRUE(error.ok()) << error.message; }

// A test of each schedule; `device` is set to it.
struct Schedule {
  Order order;
  std::uint64_t seed;
};

inline std::string schedule_name(const ::testing::TestParamInfo<Schedule>& info) {
  switch (info.param.order) {
    case Order::forward:
      return "forward";
    case Order::reverse:
      return "reverse";
    case Order::random:
      return "random" + std::to_string(info.param.seed);
  }
  return "";
}

// One device for the whole program: ThreadSanitizer takes milliseconds to make a fiber.
inline Device& shared_device() {
  static Device device;
  return device;
}

struct AllSchedules : ::testing::TestWithParam<Schedule> {
  Device& device = shared_device();
  void SetUp() override { device.options = {.order = GetParam().order, .seed = GetParam().seed}; }
};

#define INSTANTIATE_SCHEDULES(suite)                                              \
  INSTANTIATE_TEST_SUITE_P(                                                       \
      Schedules, suite,                                                           \
      ::testing::Values(Schedule{Order::forward, 0}, Schedule{Order::reverse, 0}, \
                        Schedule{Order::random, 1}, Schedule{Order::random, 2},   \
                        Schedule{Order::random, 3}),                              \
      schedule_name)

}  // namespace engine::simt
