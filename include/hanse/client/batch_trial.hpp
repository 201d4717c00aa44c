// Batches that a job will have, tried before its first round: a network from a file may refuse some
// sizes, as batch norm does one sample.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hanse/client/local_update.hpp"
#include "hanse/data/federation.hpp"
#include "hanse/model/model.hpp"

namespace hanse {

// A size of batches, and the first client that has one.
struct BatchTrial {
  int64_t rows = 0;
  int64_t client = 0;
  bool training = true;  // else evaluation
  std::string hint;      // for whoever has to avoid it
};

// One trial for every size of batch in which the first `trained` clients are trained, all together
// with options.pooled, and in which all are evaluated, those held out too, also for losses on
// `loss_batches` mini-batches (0: on all). Cost: O(clients).
std::vector<BatchTrial> batch_trials(const LocalWork& work, const Federation& federation,
                                     const Model& model, int64_t trained, int64_t loss_batches);

// The trials for streams that are cut into `horizon` batches (stream.hpp); steps take so many
// samples (0: the whole batch).
std::vector<BatchTrial> stream_trials(const Federation& federation, int64_t horizon,
                                      int64_t step_rows);

// A forward pass, and in training a backward one, on samples of the client, from the model's start.
// Throws InvalidArgument that names the client when the model fails. Memory: two rows.
void try_batch(const BatchTrial& trial, const Federation& federation, Model& model);

}  // namespace hanse
