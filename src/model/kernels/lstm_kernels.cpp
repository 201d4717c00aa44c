#include "lstm_kernels.hpp"

#define HANSE_LOOPS "lstm_loops.inc"
#include "each_family.inc"

namespace hanse {

const LstmKernels& lstm_kernels(Family family) { return HANSE_OF_FAMILY(family, kLstm); }

}  // namespace hanse
