#include "kernels/cpu/simd_avx2.h"
//
#include "kernels/cpu/leaf_table.h"

namespace engine::cpu {

const Leaf kAvx2Leaf = make_leaf<Avx2>();

}  // namespace engine::cpu
