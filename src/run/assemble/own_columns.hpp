// The columns of a rule of the user's own, on every rank.
#pragma once

#include <cstdint>
#include <memory>

#include "hanse/comm/communicator.hpp"
#include "hanse/job/job.hpp"
#include "hanse/rules/aggregation/own_columns.hpp"

namespace hanse {

// A trial block's shape: the participants of a round at most, and the model's parameters.
struct ColumnTrial {
  int64_t participants = 1;
  int64_t n_params = 1;
};

// Makes the job's rule on all ranks, and tries it on normal numbers: what fails, or differs among
// the ranks, does so before the first round. Collective. Throws AgreedError.
std::unique_ptr<ColumnFunction> make_tried_columns(const Job& job, int64_t clients,
                                                   const ColumnTrial& trial, Communicator& comm);

// Seconds of a rule's step on all columns of the trial's participants, by one of its blocks.
double seconds_of_columns(ColumnFunction& columns, const ColumnTrial& trial);

}  // namespace hanse
