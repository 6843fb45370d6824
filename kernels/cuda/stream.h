// The CUDA backend's execution context: launches in order, and the first error.
//
// Launchers never throw, print or return a status: they record the first error with the op's name
// here. What is launched after an error does nothing.
#pragma once

struct CUstream_st;  // cudaStream_t points to it; this header needs no CUDA

namespace engine::cuda {

class Stream {
 public:
  // The caller owns the CUDA stream; null is the default stream.
  explicit Stream(CUstream_st* handle = nullptr) : handle_(handle) {}

  CUstream_st* handle() const { return handle_; }

  bool ok() const { return error_ == 0; }
  int error() const { return error_; }                  // a cudaError_t
  const char* failed_op() const { return failed_op_; }  // the launcher's name; empty when ok()
  void latch(const char* op, int error) {
    if (!ok()) return;
    error_ = error;
    if (error != 0) failed_op_ = op;
  }

 private:
  CUstream_st* handle_;
  int error_ = 0;
  const char* failed_op_ = "";
};

}  // namespace engine::cuda
