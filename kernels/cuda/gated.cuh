// The formula of op/geglu.h, for the kernels that end with it.
#pragma once

#include "kernels/cuda/ptx.cuh"
#include "kernels/op/geglu.h"
#include "kernels/op/math.h"

namespace engine::ENGINE_DEVICE_NS {

__device__ __forceinline__ float gated(float x, float up) {
  // 1 argument of the tanh
  const float u = (0.7978845608f * x) * op::Scalar::fma(0.044715f * x, x, 1.0f);
  // 2 gate
  const float g = (0.5f * x) * (1.0f + op::tanh(u));
  // 3 product
  return g * up;
}

}  // namespace engine::ENGINE_DEVICE_NS
