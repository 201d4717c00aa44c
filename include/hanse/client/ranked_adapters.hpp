// Clients whose adapters have ranks of their own (FLoRA, Wang et al. 2024).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "hanse/client/local_update.hpp"
#include "hanse/model/layout.hpp"

namespace hanse {

// Wraps sgd or prox on rows with adapters A "NAME.lora_A" [r, in] and B [out, r], B = 0: client i,
// of rank r_i, starts from the received row with the rows r_i, ..., r - 1 of A at 0. Then these and
// the same columns of B have no gradient and stay exactly 0, and it counts as sending r_i (in +
// out) values of a matrix. REQUIRES: `inner` is a PassUpdate; ranks [clients] in [1, r]. Cost: a
// pass over A.
std::unique_ptr<LocalUpdate> make_ranked(std::unique_ptr<LocalUpdate> inner,
                                         std::vector<int64_t> ranks, const ParameterLayout& layout);

}  // namespace hanse
