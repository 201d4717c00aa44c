// What both engines do when a participant has been trained.
#pragma once

#include <cstddef>

#include "federated/engine.hpp"
#include "federated/report.hpp"
#include "hanse/client/local_update.hpp"
#include "hanse/sums/update_sum.hpp"

namespace hanse {

// Enters a participant's training into `findings`. Throws TrainingError unless its update, which is
// in range below `limit`, can enter the sum.
void note_training(const RoundContext& round, std::size_t entry, const ClientOutcome& outcome,
                   const FoldResult& folded, double seconds, double limit, Findings& findings);

}  // namespace hanse
