// The common test set (evaluate.test = common): test samples that belong to no client.
#pragma once

#include <string>
#include <vector>

#include "hanse/client/evaluator.hpp"
#include "hanse/comm/communicator.hpp"
#include "hanse/data/federation.hpp"
#include "hanse/evaluation/evaluation.hpp"

namespace hanse {

// PREFIXcommon_loss, for classes PREFIXcommon_accuracy, and the asked metrics (PREFIXcommon_top5)
// of one model on rank 0; empty elsewhere, and without such a set. Each rank evaluates a share of
// the samples. Pieces are added in order, so that the sums have the same bits on any number of
// ranks. Collective.
Metrics evaluate_common_test(const Federation& federation, Evaluator& model, Communicator& comm,
                             const std::string& prefix, const AskedMetrics& asked = {});

// The names of those metrics without a prefix.
std::vector<std::string> common_test_names(const Federation& federation, const AskedMetrics& asked);

}  // namespace hanse
