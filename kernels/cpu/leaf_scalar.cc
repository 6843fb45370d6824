#include "kernels/cpu/simd_scalar.h"
//
#include "kernels/cpu/leaf_table.h"

namespace engine::cpu {
namespace {
struct Baseline {};
}  // namespace

const Leaf kScalarLeaf = make_leaf<ScalarSimd<Baseline>>();

}  // namespace engine::cpu
