// The rotation of one pair (op/rope.h), for the ops that contain it.
#pragma once

#include "kernels/cuda/ptx.cuh"
#include "kernels/op/simd.h"

namespace engine::ENGINE_DEVICE_NS {

struct Pair {
  float lo, hi;
};

__device__ __forceinline__ Pair rotate(const Pair& x, float c, float s, float scale) {
  return {op::Scalar::fma(x.lo, c, -(x.hi * s)) * scale,
          op::Scalar::fma(x.hi, c, x.lo * s) * scale};
}

}  // namespace engine::ENGINE_DEVICE_NS
