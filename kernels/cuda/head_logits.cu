// In matvec's launch where the matrix has planes; else the matmul alone.
#include "kernels/cuda/matmul.cuh"
#include "kernels/op/head_logits.h"

namespace engine::ENGINE_DEVICE_NS {

int head_logits(const op::HeadLogitsArgs& a, Stream& stream) {
  if (a.matmul.w.layout == op::Layout::device_planes) return matvec_spans(a, stream);
  matmul(a.matmul, stream);
  return 0;
}

}  // namespace engine::ENGINE_DEVICE_NS
