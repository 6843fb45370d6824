#include "kernels/cpu/simd_neon.h"
//
#include "kernels/cpu/leaf_table.h"

namespace engine::cpu {

const Leaf kNeonLeaf = make_leaf<Neon>();

}  // namespace engine::cpu
