#include "kernels/simt/fiber.h"

#include <pthread.h>
#include <sys/mman.h>

#include <cstdint>
#include <new>
#include <utility>

// System V x86-64 keeps rbx, rbp, r12-r15; AAPCS64 keeps x19-x28, the frame pointer x29 and d8-d15, and
// returns to x30.
#if defined(__x86_64__)
asm(R"(
  .text
  .globl engine_simt_switch
  .hidden engine_simt_switch
  .type engine_simt_switch, @function
engine_simt_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
  .size engine_simt_switch, .-engine_simt_switch
)");
#elif defined(__aarch64__)
asm(R"(
  .text
  .globl engine_simt_switch
  .hidden engine_simt_switch
  .type engine_simt_switch, %function
engine_simt_switch:
  stp x29, x30, [sp, #-160]!
  stp x19, x20, [sp, #16]
  stp x21, x22, [sp, #32]
  stp x23, x24, [sp, #48]
  stp x25, x26, [sp, #64]
  stp x27, x28, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldp x19, x20, [sp, #16]
  ldp x21, x22, [sp, #32]
  ldp x23, x24, [sp, #48]
  ldp x25, x26, [sp, #64]
  ldp x27, x28, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  ldp x29, x30, [sp], #160
  ret
  .size engine_simt_switch, .-engine_simt_switch
)");
#else
#error "the SIMT executor has no fiber switch for this processor"
#endif

namespace engine::simt {
namespace {

constexpr std::uint64_t kCanary = 0x5AFE57AC5AFE57AC;

#if defined(ENGINE_SIMT_ASAN) || defined(ENGINE_SIMT_TSAN) || !defined(__OPTIMIZE__)
// Instrumented and unoptimised frames are several times larger. A guard page stops an overflow.
constexpr std::size_t kStackBytes = std::size_t{64} << 10;
constexpr std::size_t kStackGuardBytes = 4096;
#else
constexpr std::size_t kStackBytes = std::size_t{16} << 10;
constexpr std::size_t kStackGuardBytes = 0;
#endif
// Stacks a multiple of 4 KB apart would fight for the same sets of the first-level cache; guards need pages.
constexpr std::size_t kStride = kStackBytes + (kStackGuardBytes > 0 ? kStackGuardBytes : 5 * 64);

std::uint64_t* canary(const Fiber& fiber) { return static_cast<std::uint64_t*>(fiber.stack); }

}  // namespace

void prepare(Fiber& fiber, void (*entry)()) {
  release(fiber);
  fiber.fake_stack = nullptr;
#if defined(ENGINE_SIMT_ASAN)
  __asan_unpoison_memory_region(fiber.stack, fiber.stack_bytes);
#endif
#if defined(ENGINE_SIMT_TSAN)
  fiber.tsan = __tsan_create_fiber(0);
#endif
  *canary(fiber) = kCanary;
  auto** top = reinterpret_cast<void**>(static_cast<std::byte*>(fiber.stack) + fiber.stack_bytes);
#if defined(__x86_64__)
  // From the top: a null return address for whoever unwinds, entry's address, six registers.
  // At entry the stack pointer is 8 below a multiple of 16, as after a call.
  constexpr int kWords = 8;
  constexpr int kEntry = 6;
#else
  // engine_simt_switch's frame of 20 words, of which the second is the return address.
  constexpr int kWords = 20;
  constexpr int kEntry = 1;
#endif
  void** saved = top - kWords;
  for (int i = 0; i < kWords; ++i) saved[i] = nullptr;
  saved[kEntry] = reinterpret_cast<void*>(entry);
  fiber.stack_pointer = saved;
}

bool stack_overflowed(const Fiber& fiber) { return *canary(fiber) != kCanary; }

#if defined(ENGINE_SIMT_TSAN)
namespace {
// What ThreadSanitizer takes for the fiber's own action.
template <class Action>
void act_as(const Fiber& fiber, const Action& action) {
  void* const self = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(fiber.tsan, __tsan_switch_to_fiber_no_sync);
  action();
  __tsan_switch_to_fiber(self, __tsan_switch_to_fiber_no_sync);
}
}  // namespace

void release_for(const Fiber& fiber, void* object) {
  act_as(fiber, [=] { __tsan_release(object); });
}

void release(Fiber& fiber) {
  if (fiber.tsan == nullptr) return;
  // A fiber must not end unwatched.
  const int n = std::exchange(fiber.n_unwatched, 0);
  act_as(fiber, [n] {
    for (int i = 0; i < n; ++i) watch_again();
  });
  __tsan_destroy_fiber(fiber.tsan);
  fiber.tsan = nullptr;
}
#else
void release_for(const Fiber&, void*) {}
void release(Fiber&) {}
#endif

void adopt_current(Fiber& fiber) {
  fiber = {};
#if defined(ENGINE_SIMT_TSAN)
  fiber.tsan = __tsan_get_current_fiber();
#endif
#if defined(ENGINE_SIMT_ASAN)
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
    pthread_attr_getstack(&attributes, &fiber.stack, &fiber.stack_bytes);
    pthread_attr_destroy(&attributes);
  }
#endif
}

Stacks::Stacks(int n) : bytes_(static_cast<std::size_t>(n) * kStride + kStackGuardBytes + 4096) {
  void* memory = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  memory_ = static_cast<std::byte*>(memory);
  if constexpr (kStackGuardBytes > 0)
    for (int i = 0; i < n; ++i)
      ::mprotect(memory_ + static_cast<std::size_t>(i) * kStride, kStackGuardBytes, PROT_NONE);
}

Stacks::~Stacks() { ::munmap(memory_, bytes_); }

void Stacks::assign(Fiber& fiber, int i) const {
  fiber.stack = memory_ + static_cast<std::size_t>(i) * kStride + kStackGuardBytes;
  fiber.stack_bytes = kStackBytes;
}

}  // namespace engine::simt
