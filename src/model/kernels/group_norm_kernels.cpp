#include "group_norm_kernels.hpp"

#define HANSE_LOOPS "group_norm_loops.inc"
#include "each_family.inc"

namespace hanse {

const GroupNormKernels& group_norm_kernels(Family family) {
  return HANSE_OF_FAMILY(family, kGroupNorm);
}

}  // namespace hanse
