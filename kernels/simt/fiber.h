// Fibers: stacks that one OS thread switches between, one for each CUDA thread of the resident blocks.
//
// A switch saves the registers that the platform's calling convention keeps across calls, nothing
// else: no signal mask (which makes swapcontext a hundred times slower) and no floating-point
// environment. AddressSanitizer and ThreadSanitizer are told of every switch.
#pragma once

#include <cstddef>
#include <memory>

#if defined(__SANITIZE_ADDRESS__)
#define ENGINE_SIMT_ASAN 1
#endif
#if defined(__SANITIZE_THREAD__)
#define ENGINE_SIMT_TSAN 1
#endif
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ENGINE_SIMT_ASAN 1
#endif
#if __has_feature(thread_sanitizer)
#define ENGINE_SIMT_TSAN 1
#endif
#endif

#if defined(ENGINE_SIMT_ASAN)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(ENGINE_SIMT_TSAN)
#include <sanitizer/tsan_interface.h>
extern "C" {  // part of ThreadSanitizer's run-time library without a header
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
void AnnotateIgnoreWritesBegin(const char* file, int line);
void AnnotateIgnoreWritesEnd(const char* file, int line);
}
#endif

// Saves the caller's registers on its stack and its stack pointer in *from, then continues what was saved at
// `to`. In fiber.cc.
extern "C" void engine_simt_switch(void** from, void* to);

namespace engine::simt {

struct Fiber {
  void* stack_pointer = nullptr;  // while it does not run
  void* stack = nullptr;          // lowest address; null for the OS thread's own stack
  std::size_t stack_bytes = 0;
  void* fake_stack = nullptr;  // AddressSanitizer's
  void* tsan = nullptr;        // ThreadSanitizer's
  int n_unwatched = 0;         // watch_not() calls without their watch_again()
};

// Makes the next switch to the fiber call `entry`, which must never return and must call
// fiber_entered() first. Whatever the fiber was doing is abandoned: no destructor runs.
void prepare(Fiber& fiber, void (*entry)());

// A word at the far end of the stack, which only an overflow changes.
bool stack_overflowed(const Fiber& fiber);

// Frees what the sanitizers hold for the fiber.
void release(Fiber& fiber);

// Tells ThreadSanitizer that what the fiber did, which will not run again, comes before whoever acquires `object`.
void release_for(const Fiber& fiber, void* object);

// The OS thread's own context, before it first switches away.
void adopt_current(Fiber& fiber);

inline void switch_fiber(Fiber& from, Fiber& to) {
#if defined(ENGINE_SIMT_ASAN)
  __sanitizer_start_switch_fiber(&from.fake_stack, to.stack, to.stack_bytes);
#endif
#if defined(ENGINE_SIMT_TSAN)
  // Without the flag a switch would order everything before it, and hide every race.
  __tsan_switch_to_fiber(to.tsan, __tsan_switch_to_fiber_no_sync);
#endif
  engine_simt_switch(&from.stack_pointer, to.stack_pointer);
#if defined(ENGINE_SIMT_ASAN)
  __sanitizer_finish_switch_fiber(from.fake_stack, nullptr, nullptr);
#endif
}

inline void fiber_entered() {
#if defined(ENGINE_SIMT_ASAN)
  __sanitizer_finish_switch_fiber(nullptr, nullptr, nullptr);
#endif
}

#if defined(ENGINE_SIMT_TSAN)
// Between the two, accesses of the running fiber are not recorded. They nest.
inline void watch_not() {
  AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
  AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
}
inline void watch_again() {
  AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
  AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
}
#endif

// Memory for n stacks. Neighbouring stacks begin at different cache sets.
class Stacks {
 public:
  explicit Stacks(int n);  // throws std::bad_alloc
  ~Stacks();
  Stacks(const Stacks&) = delete;
  Stacks& operator=(const Stacks&) = delete;

  void assign(Fiber& fiber, int i) const;

 private:
  std::byte* memory_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace engine::simt
