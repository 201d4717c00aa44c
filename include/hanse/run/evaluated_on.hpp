// The samples on which clients are evaluated: for tests, for validation, or for training.
#pragma once

#include <cstdint>
#include <string>

#include "hanse/evaluation/asked_metrics.hpp"

namespace hanse {

class Federation;

struct EvaluatedOn {
  int64_t apart = 0;        // clients with such samples
  int64_t training = 0;     // the other clients
  bool validation = false;  // else tests

  // "test", "validation", "train", "mixed", or nothing without clients; a column of CSV files and a
  // key of summary.json.
  std::string split() const;
  // "test ", "validation ", "training " or nothing: stands before "accuracy" and "loss".
  std::string prefix() const;
};

// The prefix that belongs to a split.
std::string split_prefix(const std::string& split);

// For the clients in training.
EvaluatedOn clients_evaluated_on(const Federation& federation, EvaluateOn on);
// For the held-out clients that summarize_all() shows as held_out_*.
EvaluatedOn held_out_evaluated_on(const Federation& federation, EvaluateOn on);

}  // namespace hanse
