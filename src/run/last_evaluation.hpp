// What a run knows of its clients at the moment.
#pragma once

#include <cstdint>
#include <vector>

#include "hanse/protocol/evaluation.hpp"
#include "hanse/run/evaluated_on.hpp"

namespace hanse {

// What the last evaluation found; rank 0's, but for what it was made on.
struct LastEvaluation {
  std::vector<ClientEvaluation> clients;
  std::vector<double> train_losses;
  Metrics metrics;
  // The samples behind them; behind validation_*, where there are both.
  EvaluatedOn clients_on, held_out_on, validation_on;
  int64_t round = -1;
};

}  // namespace hanse
