// The common test set (evaluate.test = common): test samples that belong to no client.
#pragma once

#include <string>
#include <vector>

#include "hanse/client/evaluator.hpp"
#include "hanse/comm/communicator.hpp"
#include "hanse/data/federation.hpp"
#include "hanse/evaluation/evaluation.hpp"

namespace hanse {

// PREFIXcommon_loss and, of classes, PREFIXcommon_accuracy of one model on rank 0, and what is
// asked for (PREFIXcommon_top5); nothing elsewhere, and where there is no such set. Each rank
// evaluates a share of the samples. The sums go piece after piece, so that they have the same bits
// on any number of ranks. Collective.
Metrics evaluate_common_test(const Federation& federation, Evaluator& model, Communicator& comm,
                             const std::string& prefix, const AskedMetrics& asked = {});

// The names of what it returns without a prefix.
std::vector<std::string> common_test_names(const Federation& federation, const AskedMetrics& asked);

}  // namespace hanse
