// The executor as the CUDA backend's runtime: memory and errors.
#include "engine/simt_runtime.h"

#include <gtest/gtest.h>

namespace engine::simt {
namespace {

TEST(SimtRuntime, OutOfMemorySaysWhatWasAskedForAndWhatThereIs) {
  Runtime runtime({.memory_bytes = 1000});
  const auto first = runtime.allocate(600);
  ASSERT_TRUE(first);
  const auto second = runtime.allocate(500);
  EXPECT_EQ(second.status().code(), Code::out_of_memory);
  EXPECT_EQ(second.status().message(), "device simt: 500 bytes asked for, 400 free of 1000");
  EXPECT_TRUE(runtime.allocate(400)) << "and goes on";
}

TEST(SimtRuntime, FreedMemoryComesBack) {
  Runtime runtime({.memory_bytes = 1000});
  EXPECT_TRUE(runtime.allocate(900));
  EXPECT_EQ(runtime.free_bytes(), 1000u);
  EXPECT_TRUE(runtime.allocate(900));
}

TEST(SimtRuntime, ReportsTheFirstErrorAndGoesOn) {
  Runtime runtime({});
  auto slab = runtime.allocate(8);
  ASSERT_TRUE(slab);
  std::uint64_t value = 1, got = 0;
  runtime.upload(slab->get(), &value, sizeof value);
  for (const char* op : {"first", "second"})
    runtime.stream().run({.kernel = op, .grid = dim3(1), .block = dim3(100'000)});
  value = 2;
  runtime.upload(slab->get(), &value, sizeof value);  // not any more
  const Status status = runtime.download(&got, slab->get(), sizeof got);
  EXPECT_EQ(status.code(), Code::device);
  EXPECT_NE(status.message().find("device simt: first"), std::string::npos) << status.message();
  EXPECT_TRUE(runtime.download(&got, slab->get(), sizeof got).ok());
  EXPECT_EQ(got, 1u);
}

}  // namespace
}  // namespace engine::simt
