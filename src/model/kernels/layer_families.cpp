// The kernels of layers whose loops are all that they are, for every family of processors.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "attention_kernels.hpp"
#include "group_norm_kernels.hpp"
#include "layer_kernels.hpp"
#include "lstm_kernels.hpp"
#include "winograd_kernels.hpp"

#define HANSE_LOOPS "group_norm_loops.inc"
#include "each_family.inc"
#define HANSE_LOOPS "lstm_loops.inc"
#include "each_family.inc"
#define HANSE_LOOPS "attention_loops.inc"
#include "each_family.inc"
#define HANSE_LOOPS "winograd_loops.inc"
#include "each_family.inc"

namespace hanse {

const AttentionKernels& attention_kernels(VectorFamily family) {
  return HANSE_OF_FAMILY(family, kAttention);
}

const GroupNormKernels& group_norm_kernels(VectorFamily family) {
  return HANSE_OF_FAMILY(family, kGroupNorm);
}

const LstmKernels& lstm_kernels(VectorFamily family) { return HANSE_OF_FAMILY(family, kLstm); }

const WinogradKernels& winograd_kernels(VectorFamily family) {
  return HANSE_OF_FAMILY(family, kWinograd);
}

}  // namespace hanse
