// What kernels use beyond plain CUDA C++: memory accesses that the executor checks, and instructions
// that CUDA C++ has no words for. All inline PTX is here; every function has a host body, which is what
// kernels/simt runs.
//
// Bounds, alignment and statistics are those of the accesses made through these functions.
// Source of the instructions: the PTX ISA reference, whose section names are given.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#if defined(__CUDACC__)
#if !defined(ENGINE_DEVICE_NS)
#define ENGINE_DEVICE_NS cuda
#endif
#define ENGINE_WHERE  // a card reports no source lines
#else
// The caller's source line, for the executor's messages and to tell accesses apart.
#define ENGINE_WHERE , Where where = Where::here()
#endif

namespace engine::ENGINE_DEVICE_NS {

inline constexpr unsigned kAllLanes = 0xFFFFFFFFu;

// --- global memory ------------------------------------------------------------------------------
// T has 1, 2, 4, 8 or 16 bytes, and its address is a multiple of its size.

#if defined(__CUDACC__)
template <std::size_t bytes>
struct Words;
template <>
struct Words<1> {
  using Type = unsigned char;
};
template <>
struct Words<2> {
  using Type = unsigned short;
};
template <>
struct Words<4> {
  using Type = unsigned;
};
template <>
struct Words<8> {
  using Type = uint2;
};
template <>
struct Words<16> {
  using Type = uint4;
};
template <class T>
using WordsOf = typename Words<sizeof(T)>::Type;

template <class To, class From>
__device__ __forceinline__ To copy_bits(const From& from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  memcpy(&to, &from, sizeof(To));
  return to;
}
#endif

// Memory that the kernel, or an earlier phase of it, may write.
template <class T>
__device__ __forceinline__ T load_global(const T* p ENGINE_WHERE) {
#if defined(__CUDACC__)
  return copy_bits<T>(*reinterpret_cast<const WordsOf<T>*>(p));
#else
  return load<Space::global>(p, where);
#endif
}

// Memory that nobody writes while the kernel runs; may stay in the first-level cache.
template <class T>
__device__ __forceinline__ T load_readonly(const T* p ENGINE_WHERE) {
#if defined(__CUDACC__)
  return copy_bits<T>(__ldg(reinterpret_cast<const WordsOf<T>*>(p)));
#else
  return load<Space::global>(p, where);
#endif
}

// The same for memory that is read once: weights leave the first-level cache to activations.
// ("ld.global.nc": .L1::no_allocate is there from sm_70 on.)
template <class T>
__device__ __forceinline__ T load_streaming(const T* p ENGINE_WHERE) {
#if defined(__CUDACC__)
  WordsOf<T> v;
  const auto address = __cvta_generic_to_global(p);
  if constexpr (sizeof(T) == 16)
    asm("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
        : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
        : "l"(address));
  else if constexpr (sizeof(T) == 8)
    asm("ld.global.nc.L1::no_allocate.v2.u32 {%0, %1}, [%2];"
        : "=r"(v.x), "=r"(v.y)
        : "l"(address));
  else if constexpr (sizeof(T) == 4)
    asm("ld.global.nc.L1::no_allocate.u32 %0, [%1];" : "=r"(v) : "l"(address));
  else
    v = __ldg(reinterpret_cast<const WordsOf<T>*>(p));
  return copy_bits<T>(v);
#else
  return load<Space::global>(p, where);
#endif
}

template <class T>
__device__ __forceinline__ void store_global(T* p,
                                             const std::type_identity_t<T>& value ENGINE_WHERE) {
#if defined(__CUDACC__)
  *reinterpret_cast<WordsOf<T>*>(p) = copy_bits<WordsOf<T>>(value);
#else
  store<Space::global>(p, value, where);
#endif
}

// Asks for the line of L2 that holds *p. ("prefetch")
__device__ __forceinline__ void prefetch_l2([[maybe_unused]] const void* p) {
#if defined(__CUDACC__)
  asm volatile("prefetch.global.L2 [%0];" ::"l"(__cvta_generic_to_global(p)));
#endif
}

// --- shared memory ------------------------------------------------------------------------------

// The block's dynamic shared memory, of the size given to launch; 16-byte aligned.
template <class T>
__device__ __forceinline__ T* dynamic_shared() {
#if defined(__CUDACC__)
  extern __shared__ __align__(16) unsigned char arena[];
  return reinterpret_cast<T*>(arena);
#else
  return static_cast<T*>(shared_memory());
#endif
}

template <class T>
__device__ __forceinline__ T load_shared(const T* p ENGINE_WHERE) {
#if defined(__CUDACC__)
  return copy_bits<T>(*reinterpret_cast<const WordsOf<T>*>(p));
#else
  return load<Space::shared>(p, where);
#endif
}

template <class T>
__device__ __forceinline__ void store_shared(T* p,
                                             const std::type_identity_t<T>& value ENGINE_WHERE) {
#if defined(__CUDACC__)
  *reinterpret_cast<WordsOf<T>*>(p) = copy_bits<WordsOf<T>>(value);
#else
  store<Space::shared>(p, value, where);
#endif
}

// Starts copying 4, 8 or 16 bytes from global to shared memory; below sm_80 it copies at once. 16 bytes
// bypass the first-level cache. What arrives may be read by the thread after copy_async_wait and by others
// after a barrier as well. ("cp.async")
template <int bytes>
__device__ __forceinline__ void copy_async(void* shared, const void* global ENGINE_WHERE) {
  static_assert(bytes == 4 || bytes == 8 || bytes == 16);
#if !defined(__CUDACC__)
  copy_async(shared, global, bytes, where);
#elif __CUDA_ARCH__ >= 800
  const auto to = static_cast<unsigned>(__cvta_generic_to_shared(shared));
  const auto from = __cvta_generic_to_global(global);
  if constexpr (bytes == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(from), "n"(bytes)
                 : "memory");
#else
  using Type = typename Words<bytes>::Type;
  *static_cast<Type*>(shared) = *static_cast<const Type*>(global);
#endif
}

// The same, or zeros where `valid` is false; then nothing is read.
template <int bytes>
__device__ __forceinline__ void copy_async_or_zero(void* shared, const void* global,
                                                   bool valid ENGINE_WHERE) {
  static_assert(bytes == 4 || bytes == 8 || bytes == 16);
#if !defined(__CUDACC__)
  copy_async(shared, valid ? global : nullptr, bytes, where);
#elif __CUDA_ARCH__ >= 800
  const auto to = static_cast<unsigned>(__cvta_generic_to_shared(shared));
  const auto from = __cvta_generic_to_global(global);
  const int read = valid ? bytes : 0;
  if constexpr (bytes == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(read)
                 : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(from), "n"(bytes),
                 "r"(read)
                 : "memory");
#else
  using Type = typename Words<bytes>::Type;
  *static_cast<Type*>(shared) = valid ? *static_cast<const Type*>(global) : Type{};
#endif
}

// Closes a group of the thread's copies since the last one.
__device__ __forceinline__ void copy_async_commit() {
#if !defined(__CUDACC__)
  commit_copies();
#elif __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// Waits until at most n_groups of the thread's groups, the newest, are under way.
template <int n_groups>
__device__ __forceinline__ void copy_async_wait() {
#if !defined(__CUDACC__)
  wait_copies(n_groups);
#elif __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(n_groups) : "memory");
#endif
}

// --- integer dot products -----------------------------------------------------------------------
// c + the sum of the products of four bytes, modulo 2^32; the names say which operand is signed. ("dp4a")

#if defined(__CUDACC__)
#define ENGINE_DP4A(name, a_type, b_type, a_suffix, b_suffix)                                 \
  __device__ __forceinline__ int name(unsigned a, unsigned b, int c) {                        \
    int d;                                                                                    \
    asm("dp4a." a_suffix "." b_suffix " %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c)); \
    return d;                                                                                 \
  }
#else
#define ENGINE_DP4A(name, a_type, b_type, a_suffix, b_suffix)                                 \
  inline int name(unsigned a, unsigned b, int c) {                                            \
    count_dot_product();                                                                      \
    const auto product = [=](int i) {                                                         \
      return static_cast<a_type>(a >> 8 * i) * static_cast<b_type>(b >> 8 * i);               \
    };                                                                                        \
    const int sum = product(0) + product(1) + product(2) + product(3); /* at most 4 * 2^16 */ \
    return static_cast<int>(static_cast<unsigned>(c) + static_cast<unsigned>(sum));           \
  }
#endif
ENGINE_DP4A(dp4a_s8s8, std::int8_t, std::int8_t, "s32", "s32")
ENGINE_DP4A(dp4a_s8u8, std::int8_t, std::uint8_t, "s32", "u32")
ENGINE_DP4A(dp4a_u8s8, std::uint8_t, std::int8_t, "u32", "s32")
ENGINE_DP4A(dp4a_u8u8, std::uint8_t, std::uint8_t, "u32", "u32")
#undef ENGINE_DP4A

// --- matrices -----------------------------------------------------------------------------------
// All 32 lanes take part. With g = lane / 4 and t = lane % 4, four bytes of a register being consecutive k:

#if !defined(__CUDACC__)
// d += a b^T for n_rows x 8 outputs and n_k bytes of k, from the lanes' registers.
template <int n_rows, int n_k>
struct MmaOperands {
  unsigned a[n_rows / 8 * n_k / 16];
  unsigned b[n_k / 16];
  int* d;  // [n_rows / 4]
};

template <int n_rows, int n_k>
void multiply_fragments(const void* const* in, void* const*, unsigned) {
  using Operands = MmaOperands<n_rows, n_k>;
  std::int8_t a[n_rows][n_k], b[8][n_k];
  for (int lane = 0; lane < 32; ++lane) {
    const auto& mine = *static_cast<const Operands*>(in[lane]);
    const int g = lane / 4, t = lane % 4;
    for (int k = 0; k < n_k / 16; ++k) {
      for (int r = 0; r < n_rows / 8; ++r)
        std::memcpy(&a[g + 8 * r][16 * k + 4 * t], &mine.a[k * (n_rows / 8) + r], 4);
      std::memcpy(&b[g][16 * k + 4 * t], &mine.b[k], 4);
    }
  }
  for (int lane = 0; lane < 32; ++lane) {
    int* const d = static_cast<const Operands*>(in[lane])->d;
    const int g = lane / 4, t = lane % 4;
    for (int i = 0; i < n_rows / 4; ++i) {
      const std::int8_t* const row = a[g + 8 * (i / 2)];
      const std::int8_t* const column = b[2 * t + i % 2];
      int sum = 0;
      for (int k = 0; k < n_k; ++k) sum += row[k] * column[k];
      d[i] = static_cast<int>(static_cast<unsigned>(d[i]) + static_cast<unsigned>(sum));
    }
  }
}
#endif

// d += a b^T, int8 into int32 modulo 2^32, 8 x 8 outputs over 16 k. ("mma.m8n8k16", sm_75; below by dp4a)
//   a: row g, k 4t…        b: column g, k 4t…        d: row g, columns 2t and 2t + 1
__device__ __forceinline__ void mma_m8n8k16(int (&d)[2], unsigned a, unsigned b ENGINE_WHERE) {
#if !defined(__CUDACC__)
  const MmaOperands<8, 16> operands{{a}, {b}, d};
  meet_warp(kAllLanes, "mma_m8n8k16", &operands, nullptr, multiply_fragments<8, 16>, where);
#elif __CUDA_ARCH__ >= 750
  asm volatile("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0, %1}, {%2}, {%3}, {%0, %1};"
               : "+r"(d[0]), "+r"(d[1])
               : "r"(a), "r"(b));
#else
  const int lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll 1  // to fit the registers
  for (int k = 0; k < 4; ++k) {
    const unsigned row = __shfl_sync(kAllLanes, a, (lane & ~3) + k);
    for (int i = 0; i < 2; ++i)
      d[i] = dp4a_s8s8(row, __shfl_sync(kAllLanes, b, 4 * (2 * (lane & 3) + i) + k), d[i]);
  }
#endif
}

// The same for 16 x 8 outputs over 32 k. ("mma.m16n8k32", sm_80; below as four of the above)
//   a[0], a[1]: rows g, g + 8, k 4t…          a[2], a[3]: the same rows, k 16 + 4t…
//   b[0], b[1]: column g, k 4t… and 16 + 4t…   d[0], d[1]: row g, columns 2t, 2t + 1; d[2], d[3]: row g + 8
__device__ __forceinline__ void mma_m16n8k32(int (&d)[4], const unsigned (&a)[4],
                                             const unsigned (&b)[2] ENGINE_WHERE) {
#if !defined(__CUDACC__)
  const MmaOperands<16, 32> operands{{a[0], a[1], a[2], a[3]}, {b[0], b[1]}, d};
  meet_warp(kAllLanes, "mma_m16n8k32", &operands, nullptr, multiply_fragments<16, 32>, where);
#elif __CUDA_ARCH__ >= 800
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, "
      "%9}, "
      "{%0, %1, %2, %3};"
      : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
  int low[2] = {d[0], d[1]}, high[2] = {d[2], d[3]};
  mma_m8n8k16(low, a[0], b[0]);
  mma_m8n8k16(low, a[2], b[1]);
  mma_m8n8k16(high, a[1], b[0]);
  mma_m8n8k16(high, a[3], b[1]);
  d[0] = low[0];
  d[1] = low[1];
  d[2] = high[0];
  d[3] = high[1];
#endif
}

// Loads n = 1, 2 or 4 matrices of 8 rows of 16 bytes from shared memory: lane 8m + r gives the address of row r
// of matrix m (the addresses of other lanes are not used), and gets in r[m] bytes 4t… of row g of matrix m, which
// is how mma_m16n8k32 wants a and b. ("ldmatrix", sm_75; below by shuffles)
template <int n>
__device__ __forceinline__ void load_matrices(unsigned (&r)[n], const void* row ENGINE_WHERE) {
  static_assert(n == 1 || n == 2 || n == 4);
#if !defined(__CUDACC__)
  if (current->lane < 8 * n) check_shared(row, 16, Direction::load, where);
  meet_warp(
      kAllLanes, "load_matrices", row, r,
      [](const void* const* in, void* const* out, unsigned) {
        for (int lane = 0; lane < 32; ++lane)
          for (int m = 0; m < n; ++m)
            std::memcpy(static_cast<unsigned*>(out[lane]) + m,
                        static_cast<const std::byte*>(in[8 * m + lane / 4]) + 4 * (lane % 4), 4);
      },
      where);
  if (has_poison(r)) report_poison(row, Space::shared, where);
#elif __CUDA_ARCH__ >= 750
  const auto address = static_cast<unsigned>(__cvta_generic_to_shared(row));
  if constexpr (n == 1)
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];"
                 : "=r"(r[0])
                 : "r"(address)
                 : "memory");
  else if constexpr (n == 2)
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                 : "=r"(r[0]), "=r"(r[1])
                 : "r"(address)
                 : "memory");
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
#else
  const int lane = static_cast<int>(threadIdx.x % 32);
  const auto address = static_cast<unsigned>(__cvta_generic_to_shared(row));
  for (int m = 0; m < n; ++m) {
    const unsigned from = __shfl_sync(kAllLanes, address, 8 * m + lane / 4) + 4 * (lane % 4);
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(r[m]) : "r"(from) : "memory");
  }
#endif
}

// --- warps and blocks ---------------------------------------------------------------------------

// The sum over all lanes, modulo 2^32. ("redux.sync", sm_80)
__device__ __forceinline__ int warp_add(int value ENGINE_WHERE) {
#if !defined(__CUDACC__)
  return __reduce_add_sync(kAllLanes, value, where);
#elif __CUDA_ARCH__ >= 800
  return __reduce_add_sync(kAllLanes, value);
#else
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(kAllLanes, value, step);
  return value;
#endif
}

// A barrier of n_threads, a multiple of 32, of the block; id 1 to 15. ("bar.sync", "bar.arrive")
__device__ __forceinline__ void sync_threads(int id, int n_threads ENGINE_WHERE) {
#if defined(__CUDACC__)
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(n_threads) : "memory");
#else
  sync_named(id, n_threads, where);
#endif
}
__device__ __forceinline__ void arrive_threads(int id, int n_threads ENGINE_WHERE) {
#if defined(__CUDACC__)
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(n_threads) : "memory");
#else
  arrive_named(id, n_threads, where);
#endif
}

// --- between blocks -----------------------------------------------------------------------------
// Words in global memory, device-wide. What a thread did before a release is seen by whoever acquires the word. There
// are no fences: ThreadSanitizer, which looks for races in the executor, does not understand them.
// ("ld", "st" and "atom" with .acquire, .release and .acq_rel)

__device__ __forceinline__ unsigned load_acquire(const unsigned* p ENGINE_WHERE) {
#if defined(__CUDACC__)
  unsigned value;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];"
               : "=r"(value)
               : "l"(__cvta_generic_to_global(p))
               : "memory");
  return value;
#else
  check_flag(p, sizeof(*p), where);
  return __atomic_load_n(p, __ATOMIC_ACQUIRE);
#endif
}

__device__ __forceinline__ void store_release(unsigned* p, unsigned value ENGINE_WHERE) {
#if defined(__CUDACC__)
  asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(__cvta_generic_to_global(p)), "r"(value)
               : "memory");
#else
  check_flag(p, sizeof(*p), where);
  __atomic_store_n(p, value, __ATOMIC_RELEASE);
#endif
}

// Returns the old value.
__device__ __forceinline__ unsigned add_acquire_release(unsigned* p, unsigned value ENGINE_WHERE) {
#if defined(__CUDACC__)
  unsigned old;
  asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], %2;"
               : "=r"(old)
               : "l"(__cvta_generic_to_global(p)), "r"(value)
               : "memory");
  return old;
#else
  check_atomic(p, sizeof(*p), where);
  return __atomic_fetch_add(p, value, __ATOMIC_ACQ_REL);
#endif
}

// Waits until ready() returns true. Every loop that waits for another thread's store goes through here.
template <class Ready>
__device__ __forceinline__ void spin_until(const Ready& ready ENGINE_WHERE) {
#if defined(__CUDACC__)
  while (!ready()) __nanosleep(32);
#else
  while (!ready()) yield(where);
#endif
}

// Waits for all threads of the grid, which must be launched cooperatively, and orders their memory. `state` is one word
// of global memory, 0 before the first launch that uses it; a launch leaves it ready for the next.
//
// The first block adds 2^31 less the other blocks, which add 1 each: the top bit flips when all have come, and
// the low bits are back where they were.
__device__ inline void grid_barrier(unsigned* state ENGINE_WHERE) {
#if defined(__CUDACC__)
  __syncthreads();
#else
  count_grid_barrier(where);
  __syncthreads(where);
#endif
  if (threadIdx.x == 0 && threadIdx.y == 0 && threadIdx.z == 0) {
    constexpr unsigned kFlip = 0x80000000u;
    const unsigned n_blocks = gridDim.x * gridDim.y * gridDim.z;
    const bool is_first = blockIdx.x == 0 && blockIdx.y == 0 && blockIdx.z == 0;
    const unsigned old = add_acquire_release(state, is_first ? kFlip - (n_blocks - 1) : 1u);
    spin_until([&] { return ((load_acquire(state) ^ old) & kFlip) != 0; });
  }
#if defined(__CUDACC__)
  __syncthreads();
#else
  __syncthreads(where);
#endif
}

}  // namespace engine::ENGINE_DEVICE_NS

#undef ENGINE_WHERE
