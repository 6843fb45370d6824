#include "kernels/cpu/simd_512.h"
//
#include "kernels/cpu/leaf_table.h"

namespace engine::cpu {

const Leaf kAvx512SumsLeaf = make_leaf<Avx512Sums>();

}  // namespace engine::cpu
