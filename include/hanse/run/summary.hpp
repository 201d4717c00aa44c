// summary.json and the table at the end of a run.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "hanse/base/rule_file.hpp"
#include "hanse/protocol/protocol.hpp"
#include "hanse/run/accounts.hpp"
#include "hanse/run/evaluated_on.hpp"

namespace hanse {

struct Summary {
  std::string name;
  int64_t seed = 0;
  int64_t rounds = 0;
  int64_t ranks = 1;
  std::string trained_on;      // trains the clients: "cpu", or a GPU with its libraries
  bool simulated = false;      // no client was trained
  std::span<const float> row;  // the final model; its digest is reported
  std::string data_digest;     // of samples, labels, clients and test parts
  double setup_seconds = 0;    // from the start of the process to the first round
  double seconds = 0;          // of all rounds
  double seconds_per_round_median = 0;
  double bytes_per_round = 0;
  double peak_memory_bytes = 0;  // resident, on the rank with the most
  EvaluatedOn clients;           // for the metrics
  EvaluatedOn held_out;          // for metrics that begin with held_out_
  // Files of the user's own rules, each with the key that names it.
  std::vector<std::pair<std::string, RuleFile*>> rules;
  Metrics metrics;
  Accounts accounts;
  std::vector<ReturnedArm> returned;  // a bandit's x_hat in summary.json
};

// One JSON object; values that are NaN are left out.
std::string summary_json(const Summary& summary);

// The numbers a person looks for first.
std::string summary_table(const Summary& summary, const std::string& run_directory);

// Means and deviations over the repeats of a job.
struct RepeatedMetrics {
  int64_t repeats = 0;
  Metrics metrics;                   // NAME, and for several repeats NAME_std
  std::map<std::string, int64_t> n;  // by NAME: repeats that have it; a target may be missed
};

// `split` and `held_out_split` are EvaluatedOn::split()'s.
std::string repeats_table(const RepeatedMetrics& found, const std::string& split,
                          const std::string& held_out_split, const std::string& run_directory);

// Library versions, "name version" each; no MPI needed.
std::vector<std::pair<std::string, std::string>> versions();

}  // namespace hanse
