#include "kernels/cpu/simd_512.h"
//
#include "kernels/cpu/leaf_table.h"

namespace engine::cpu {

const Leaf kAvx512VnniLeaf = make_leaf<Avx512Vnni>();

}  // namespace engine::cpu
