// How the programs end.
#pragma once

#include "gguf/result.h"

namespace engine::tools {

enum ExitCode : int {
  kSuccess = 0,      // also when the reader of standard output has gone away
  kFailure = 1,      // something went wrong at run time
  kUsage = 2,        // bad arguments, or nothing to do
  kModelFile = 3,    // the model file is absent, broken or not supported
  kDevice = 4,       // the device asked for is absent or failed
  kDeviceLost = 70,  // the device failed for good: a supervisor should start the program again
  kInterrupted = 130,
};

// Of a Status that ends a program. Valid models fail only while they are loaded.
constexpr ExitCode exit_code(Code code) noexcept {
  switch (code) {
    case Code::ok:
      return kSuccess;
    case Code::invalid_argument:
      return kUsage;
    case Code::io:
    case Code::corrupt_file:
    case Code::unsupported:
      return kModelFile;
    case Code::device:
      return kDevice;
    case Code::device_lost:
      return kDeviceLost;
    case Code::cancelled:
      return kInterrupted;
    default:
      return kFailure;
  }
}

}  // namespace engine::tools
