#include "tests/hostile/hostile_case.h"

#include <gtest/gtest.h>
#include <time.h>

#include <algorithm>
#include <utility>

#include "tests/support/heap_meter.h"
#include "tests/support/temp_dir.h"

namespace engine::test {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif
#else
constexpr bool kSanitized = false;
#endif

#ifdef NDEBUG
constexpr bool kOptimized = true;
#else
constexpr bool kOptimized = false;
#endif

// The promise is 200 ms; builds that check themselves are slower.
constexpr double kMaxMilliseconds = kOptimized && !kSanitized ? 200 : 2000;

// Processor time, so that a busy machine does not fail the test.
double thread_milliseconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) * 1e-6;
}

void check_outcome(const HostileCase& c, const Status& status) {
  EXPECT_NE(std::find(c.accepted.begin(), c.accepted.end(), status.detail()), c.accepted.end())
      << "got " << name(status.code()) << " " << name(status.detail()) << ": " << status.message();
  EXPECT_EQ(status.ok(), status.detail() == Detail::none) << status.message();
  EXPECT_NE(status.message().find(c.mentions), std::string::npos)
      << "no \"" << c.mentions << "\" in: " << status.message();
}

// Loads by `open`, within the limits that SECURITY.md promises.
template <class Open>
void check_load(const HostileCase& c, std::size_t file_bytes, Open open) {
  const std::size_t max_heap = 4 * file_bytes + (8 << 20);
  const HeapMeter heap;
  const double start = thread_milliseconds();
  const Status status = open();
  const double milliseconds = thread_milliseconds() - start;
  EXPECT_LE(heap.peak_bytes(), max_heap);
  if (!status.ok()) {
    EXPECT_LE(milliseconds, kMaxMilliseconds);
  }
  check_outcome(c, status);
}

}  // namespace

HostileCase mutated(std::string id, Mutation mutate, std::vector<Detail> accepted,
                    std::string mentions) {
  return {std::move(id),
          [mutate = std::move(mutate)] {
            static const GgufFile valid = tiny_model();
            GgufFile file = valid;
            mutate(file);
            return file.build();
          },
          std::move(accepted), std::move(mentions)};
}

HostileCase accepted(std::string id, Mutation mutate) {
  return mutated(std::move(id), std::move(mutate), {Detail::none});
}

void check(const HostileCase& c) {
  const Bytes bytes = c.bytes();
  {
    SCOPED_TRACE("from memory");
    check_load(c, bytes.size(), [&] { return load(std::span(bytes)); });
  }
  {
    SCOPED_TRACE("from a file");
    const TempDir dir;
    const std::filesystem::path path = dir.write("model.gguf", bytes);
    check_load(c, bytes.size(), [&] { return load(path); });
  }
  static const Bytes valid = tiny_model().build();
  const Status status = load(std::span(valid));
  EXPECT_TRUE(status.ok()) << "a valid model afterwards: " << status.message();
}

}  // namespace engine::test
