// How far runs are, by the files that they leave.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace hanse {

struct RunStatus {
  std::string run;         // its folder
  std::string state;       // running, stopped, done or failed
  int64_t rounds = 0;      // that are completed
  int64_t of_rounds = -1;  // that it is to make; -1: not known yet
  double rate = kUnknown;  // rounds a second of late; of simulated time nothing is known
  double left_s = kUnknown;
  std::string metric = {};  // its main metric, and the newest value; empty: no evaluation yet
  double value = kUnknown;
  int64_t evaluated = -1;  // the round of the value
  std::string error = {};  // of one that has failed

  static constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
};

// The runs that a path names: a run directory, or all below a folder of repeats or of a sweep, in
// the order of their names. A run that has been killed is stopped, though it leaves its lock. The
// main metric is evaluate.best, else that of run.target, else the first known of common_accuracy,
// online_accuracy, regret, accuracy_mean, ..., loss_mean. Runs may write meanwhile. Throws
// InvalidArgument: there is no run. Cost: the ends of two tables a run.
std::vector<RunStatus> statuses_of(const std::string& path);

// A table of the runs that the paths name, or with `json` an array of objects.
std::string status_text(std::span<const std::string> paths, bool json);

}  // namespace hanse
