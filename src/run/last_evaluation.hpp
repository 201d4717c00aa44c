// What a run knows of its clients at the moment.
#pragma once

#include <cstdint>
#include <vector>

#include "hanse/base/error.hpp"
#include "hanse/protocol/evaluation.hpp"
#include "hanse/run/evaluated_on.hpp"

namespace hanse {

// What the last evaluation found; rank 0's, but for what it was made on.
struct LastEvaluation {
  std::vector<ClientEvaluation> clients;
  std::vector<double> train_losses;
  Metrics metrics;
  EvaluatedOn clients_on, held_out_on;  // the samples behind them
  int64_t round = -1;

  // Metrics of the user's own. Throws InvalidArgument where one has the name of another.
  void add_own(const Metrics& own) {
    for (const auto& metric : own) {
      for (const auto& [name, value] : metrics) {
        if (name != metric.first) continue;
        throw InvalidArgument("the metric has the name of a column that is there: " + name,
                              "evaluate.metric", "choose another name");
      }
      metrics.push_back(metric);
    }
  }
};

}  // namespace hanse
