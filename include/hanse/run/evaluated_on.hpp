// Which samples the clients are evaluated on: their test samples, or those they train on.
#pragma once

#include <cstdint>
#include <string>

namespace hanse {

class Federation;

struct EvaluatedOn {
  int64_t test = 0;      // clients with test samples
  int64_t training = 0;  // clients without

  // "test", "train", "mixed", or nothing without clients; a column of CSV files and a key of
  // summary.json.
  std::string split() const;
  // "test ", "training " or nothing: what stands before "accuracy" and "loss".
  std::string prefix() const;
};

// The prefix that belongs to a split.
std::string split_prefix(const std::string& split);

// Of the clients [begin, end).
EvaluatedOn evaluated_on(const Federation& federation, int64_t begin, int64_t end);

}  // namespace hanse
