// Clients that send directions, side by side on a device.
#pragma once

#include <cstdint>
#include <memory>

#include "hanse/client/cohort_update.hpp"
#include "quasi_newton_rule.hpp"

namespace hanse {

// What make_quasi_newton() does with one client after the other. The gradients of the pairs stay on
// the device: a table of 2 f + 1 rows a client, f the most pairs of a round, and one for the sum
// that is sent. Without pairs of earlier rounds their products are made there, and the host gets
// numbers. With them the rows go to the client's state in the host's memory, 2 f + 1 each, where
// its old pairs are, and the products are made there: a pass over all of them. `rule` and `cohorts`
// must outlive the object. Cost beyond the host's: another gradient of all clients for each step
// with which some client's pair ends, unless batches are full.
std::unique_ptr<CohortUpdate> make_quasi_newton_cohort(const ClientOptions& options,
                                                       const QuasiNewtonRule& rule,
                                                       int64_t n_params, CohortTraining& cohorts);

}  // namespace hanse
