#include "winograd_kernels.hpp"

#include <cstddef>
#include <utility>

#define HANSE_LOOPS "winograd_loops.inc"
#include "each_family.inc"

namespace hanse {

const WinogradKernels& winograd_kernels(Family family) {
  return HANSE_OF_FAMILY(family, kWinograd);
}

}  // namespace hanse
