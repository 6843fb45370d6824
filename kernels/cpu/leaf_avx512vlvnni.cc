#include "kernels/cpu/simd_avxvnni.h"
//
#include "kernels/cpu/leaf_table.h"

namespace engine::cpu {

const Leaf kAvx512VlVnniLeaf = make_leaf<Avx512VlVnni>();

}  // namespace engine::cpu
