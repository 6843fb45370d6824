// The processor time that tests of idle threads look at.
#pragma once

#include <sys/resource.h>

namespace engine::test {

// Of all threads of this process so far, in user and kernel mode.
inline double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

}  // namespace engine::test
