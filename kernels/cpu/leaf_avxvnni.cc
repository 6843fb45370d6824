#include "kernels/cpu/simd_avxvnni.h"
//
#include "kernels/cpu/leaf_table.h"

namespace engine::cpu {

const Leaf kAvxVnniLeaf = make_leaf<AvxVnni>();

}  // namespace engine::cpu
