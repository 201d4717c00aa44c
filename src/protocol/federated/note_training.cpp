#include "federated/note_training.hpp"

#include <cmath>

#include <fmt/format.h>

#include "federated/round_plan.hpp"
#include "hanse/base/error.hpp"

namespace hanse {

void note_training(const RoundContext& round, std::size_t entry, const ClientOutcome& outcome,
                   const FoldResult& folded, double seconds, double limit, Findings& findings) {
  if (!folded.in_range || !std::isfinite(outcome.loss + outcome.rate)) {
    throw TrainingError(
        fmt::format("the update of a client is not finite or above {:.3g} (its loss is {:.6g})",
                    limit, outcome.loss),
        round.plan.entries()[entry].client, round.number,
        "a smaller client.lr or client.clip may help");
  }
  findings.of(entry, Findings::kLoss) = outcome.loss;
  findings.of(entry, Findings::kSquaredNorm) = folded.squared_norm;
  findings.of(entry, Findings::kRate) = outcome.rate;
  findings.of(entry, Findings::kSeconds) = seconds;
}

}  // namespace hanse
