// How far attackers that poison data have come.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "hanse/client/options.hpp"
#include "hanse/comm/communicator.hpp"
#include "hanse/data/federation.hpp"
#include "hanse/model/model.hpp"

namespace hanse {

// The share of the samples that the model with `row` takes for what attackers want, on rank 0: of
// patched samples of other classes than theirs (backdoor), or of the samples of options.source
// (flip). Samples are those of the common test set, or of the clients in training where there is
// none: their own test samples. NaN when there is no such sample, nothing when nobody poisons data.
// Collective: each rank evaluates a share of them. Cost: one forward pass over them.
std::optional<double> attack_success(const PoisonOptions& options, const Federation& federation,
                                     Model& model, std::span<const float> row, Communicator& comm);

}  // namespace hanse
