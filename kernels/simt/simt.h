// CUDA's vocabulary for kernels compiled by a host compiler:
//
//   g++ -std=c++20 -ffp-contract=off -x c++ -include kernels/simt/simt.h -c kernel.cu
//
// Left out on purpose, so that their use does not compile: __shared__ variables (use the dynamic arena, a host
// variable would be shared by all blocks), <<<>>> (use launch()), __threadfence (use acquire and release
// operations, which ThreadSanitizer understands), __activemask, approximate and half arithmetic, atomics on floats.
#pragma once

#include <bit>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <type_traits>

#include "kernels/simt/thread.h"

#define ENGINE_DEVICE_NS simt  // kernels live in engine::ENGINE_DEVICE_NS

#define __global__
#define __device__
#define __host__
#define __constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(n) __attribute__((aligned(n)))

// Macros, because a member of a class could not be an unsigned to templates and auto.
#define threadIdx (::engine::simt::current->index)
#define blockIdx (::engine::simt::current->block_index)
#define blockDim (::engine::simt::current->block_shape)
#define gridDim (::engine::simt::current->grid_shape)
inline constexpr int warpSize = 32;

namespace engine::simt {

// A collective in which lane l of the mask gets combine(values, mask, l).
template <class T, class Combine>
T combine_lanes(unsigned mask, const char* name, const T& value, Where where,
                const Combine& combine) {
  struct In {
    T value;
    const Combine* combine;
  };
  const In in{value, &combine};
  T out;
  meet_warp(
      mask, name, &in, &out,
      [](const void* const* ins, void* const* outs, unsigned lanes) {
        for (unsigned rest = lanes; rest != 0; rest &= rest - 1) {
          const auto lane = static_cast<unsigned>(std::countr_zero(rest));
          const auto& mine = *static_cast<const In*>(ins[lane]);
          const auto value_of = [&](unsigned l) { return static_cast<const In*>(ins[l])->value; };
          *static_cast<T*>(outs[lane]) = (*mine.combine)(value_of, lanes, lane);
        }
      },
      where);
  return out;
}

// A shuffle: lane l gets the value of lane source(l).
template <class T, class Source>
T shuffle(unsigned mask, const char* name, const T& value, Where where, const Source& source) {
  return combine_lanes(mask, name, value, where,
                       [&](const auto& value_of, unsigned lanes, unsigned lane) {
                         const unsigned from = source(lane);
                         if ((lanes >> from & 1) == 0)
                           fail(Fault::bad_collective,
                                std::string(name) + " from a lane outside of the mask", where);
                         return value_of(from);
                       });
}

// A reduction of all lanes' values, which every lane gets.
template <class T, class Join>
T reduce(unsigned mask, const char* name, const T& value, Where where, const Join& join) {
  return combine_lanes(mask, name, value, where,
                       [&](const auto& value_of, unsigned lanes, unsigned) {
                         auto lane = static_cast<unsigned>(std::countr_zero(lanes));
                         T total = value_of(lane);
                         while ((lanes &= lanes - 1) != 0) {
                           lane = static_cast<unsigned>(std::countr_zero(lanes));
                           total = join(total, value_of(lane));
                         }
                         return total;
                       });
}

template <class T>
concept AtomicInteger =
    std::same_as<T, int> || std::same_as<T, unsigned> || std::same_as<T, unsigned long long>;

// Replaces *p by update(*p) and returns the old value; relaxed, as CUDA's atomics.
template <class T, class Update>
T atomically(T* p, Where where, const Update& update) {
  check_atomic(p, sizeof(T), where);
  T old = __atomic_load_n(p, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(p, &old, update(old), false, __ATOMIC_RELAXED,
                                      __ATOMIC_RELAXED)) {
  }
  return old;
}

}  // namespace engine::simt

#define ENGINE_SIMT_WHERE ::engine::simt::Where where = ::engine::simt::Where::here()

// --- block and warp -----------------------------------------------------------------------------

inline void __syncthreads(ENGINE_SIMT_WHERE) {
  ::engine::simt::sync_block("__syncthreads", false, where);
}
inline int __syncthreads_or(int predicate, ENGINE_SIMT_WHERE) {
  return ::engine::simt::sync_block("__syncthreads_or", predicate != 0, where).n_true != 0;
}
inline int __syncthreads_and(int predicate, ENGINE_SIMT_WHERE) {
  const auto votes = ::engine::simt::sync_block("__syncthreads_and", predicate != 0, where);
  return votes.n_true == votes.n;
}
inline int __syncthreads_count(int predicate, ENGINE_SIMT_WHERE) {
  return ::engine::simt::sync_block("__syncthreads_count", predicate != 0, where).n_true;
}
inline void __syncwarp(unsigned mask = 0xFFFFFFFFu, ENGINE_SIMT_WHERE) {
  ::engine::simt::sync_warp(mask, where);
}
inline void __nanosleep(unsigned, ENGINE_SIMT_WHERE) { ::engine::simt::yield(where); }

// width: a power of 2 up to 32. A source beyond the caller's part of the warp is the caller itself.
template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32, ENGINE_SIMT_WHERE) {
  const auto in_part = static_cast<unsigned>(width - 1);
  return ::engine::simt::shuffle(mask, "__shfl_sync", value, where, [=](unsigned lane) {
    return (lane & ~in_part) | (static_cast<unsigned>(source) & in_part);
  });
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, ENGINE_SIMT_WHERE) {
  const auto in_part = static_cast<unsigned>(width - 1);
  return ::engine::simt::shuffle(mask, "__shfl_up_sync", value, where, [=](unsigned lane) {
    return (lane & in_part) >= delta ? lane - delta : lane;
  });
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, ENGINE_SIMT_WHERE) {
  const auto in_part = static_cast<unsigned>(width - 1);
  return ::engine::simt::shuffle(mask, "__shfl_down_sync", value, where, [=](unsigned lane) {
    return delta <= in_part - (lane & in_part) ? lane + delta : lane;
  });
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32, ENGINE_SIMT_WHERE) {
  const auto in_part = static_cast<unsigned>(width - 1);
  return ::engine::simt::shuffle(mask, "__shfl_xor_sync", value, where, [=](unsigned lane) {
    const unsigned from = (lane ^ static_cast<unsigned>(lane_mask)) & 31;
    return from <= (lane | in_part) ? from : lane;
  });
}

inline unsigned __ballot_sync(unsigned mask, int predicate, ENGINE_SIMT_WHERE) {
  const unsigned vote = predicate != 0 ? 1u << ::engine::simt::current->lane : 0u;
  return ::engine::simt::reduce(mask, "__ballot_sync", vote, where, std::bit_or<>());
}
inline int __any_sync(unsigned mask, int predicate, ENGINE_SIMT_WHERE) {
  return ::engine::simt::reduce(mask, "__any_sync", int{predicate != 0}, where, std::bit_or<>());
}
inline int __all_sync(unsigned mask, int predicate, ENGINE_SIMT_WHERE) {
  return ::engine::simt::reduce(mask, "__all_sync", int{predicate != 0}, where, std::bit_and<>());
}

// int or unsigned; an int sum wraps. sm_80 and above: kernels use warp_add and its like of ptx.cuh.
template <class T>
T __reduce_add_sync(unsigned mask, T value, ENGINE_SIMT_WHERE) {
  return static_cast<T>(::engine::simt::reduce(mask, "__reduce_add_sync",
                                               static_cast<unsigned>(value), where, std::plus<>()));
}
template <class T>
T __reduce_max_sync(unsigned mask, T value, ENGINE_SIMT_WHERE) {
  return ::engine::simt::reduce(mask, "__reduce_max_sync", value, where,
                                [](T a, T b) { return a > b ? a : b; });
}
template <class T>
T __reduce_min_sync(unsigned mask, T value, ENGINE_SIMT_WHERE) {
  return ::engine::simt::reduce(mask, "__reduce_min_sync", value, where,
                                [](T a, T b) { return a < b ? a : b; });
}
inline unsigned __reduce_or_sync(unsigned mask, unsigned value, ENGINE_SIMT_WHERE) {
  return ::engine::simt::reduce(mask, "__reduce_or_sync", value, where, std::bit_or<>());
}

// --- atomics ------------------------------------------------------------------------------------

template <::engine::simt::AtomicInteger T>
T atomicAdd(T* p, std::type_identity_t<T> value, ENGINE_SIMT_WHERE) {
  ::engine::simt::check_atomic(p, sizeof(T), where);
  return __atomic_fetch_add(p, value, __ATOMIC_RELAXED);
}
template <::engine::simt::AtomicInteger T>
T atomicMax(T* p, std::type_identity_t<T> value, ENGINE_SIMT_WHERE) {
  return ::engine::simt::atomically(p, where, [=](T old) { return old > value ? old : value; });
}
template <::engine::simt::AtomicInteger T>
T atomicMin(T* p, std::type_identity_t<T> value, ENGINE_SIMT_WHERE) {
  return ::engine::simt::atomically(p, where, [=](T old) { return old < value ? old : value; });
}
template <::engine::simt::AtomicInteger T>
T atomicOr(T* p, std::type_identity_t<T> value, ENGINE_SIMT_WHERE) {
  return ::engine::simt::atomically(p, where, [=](T old) { return old | value; });
}
template <::engine::simt::AtomicInteger T>
T atomicExch(T* p, std::type_identity_t<T> value, ENGINE_SIMT_WHERE) {
  ::engine::simt::check_atomic(p, sizeof(T), where);
  return __atomic_exchange_n(p, value, __ATOMIC_RELAXED);
}
template <::engine::simt::AtomicInteger T>
T atomicCAS(T* p, std::type_identity_t<T> expected, std::type_identity_t<T> value,
            ENGINE_SIMT_WHERE) {
  ::engine::simt::check_atomic(p, sizeof(T), where);
  __atomic_compare_exchange_n(p, &expected, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  return expected;
}

#undef ENGINE_SIMT_WHERE

// --- arithmetic ---------------------------------------------------------------------------------

inline int __popc(unsigned x) { return std::popcount(x); }
inline int __popcll(unsigned long long x) { return std::popcount(x); }
inline int __clz(int x) { return std::countl_zero(static_cast<unsigned>(x)); }
inline int __clzll(long long x) { return std::countl_zero(static_cast<unsigned long long>(x)); }
inline int __ffs(int x) { return x == 0 ? 0 : std::countr_zero(static_cast<unsigned>(x)) + 1; }
inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>(std::uint64_t{a} * b >> 32);
}
// Byte i of the result is the byte of (y, x), x low, that bits 4i..4i+2 of the selector name; bit 4i+3 spreads
// its sign.
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
  const std::uint64_t bytes = std::uint64_t{y} << 32 | x;
  unsigned result = 0;
  for (unsigned i = 0; i < 4; ++i) {
    const unsigned choice = selector >> 4 * i;
    auto byte = static_cast<unsigned>(bytes >> 8 * (choice & 7)) & 0xFFu;
    if ((choice & 8) != 0) byte = (byte & 0x80u) != 0 ? 0xFFu : 0u;
    result |= byte << 8 * i;
  }
  return result;
}

inline int __float_as_int(float x) { return std::bit_cast<int>(x); }
inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline float __int_as_float(int x) { return std::bit_cast<float>(x); }
inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }

template <std::integral T>
constexpr T min(T a, T b) {
  return b < a ? b : a;
}
template <std::integral T>
constexpr T max(T a, T b) {
  return a < b ? b : a;
}
