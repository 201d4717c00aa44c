// summary.json and the table at the end of a run.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "hanse/base/rule_file.hpp"
#include "hanse/protocol/evaluation.hpp"
#include "hanse/run/evaluated_on.hpp"

namespace hanse {

struct Summary {
  std::string name;
  int64_t seed = 0;
  int64_t rounds = 0;
  int64_t ranks = 1;
  std::span<const float> row;  // the final model; its digest is reported
  std::string data_digest;     // of samples, labels, clients and test parts
  double setup_seconds = 0;    // from the start of the process to the first round
  double seconds = 0;          // of all rounds
  double seconds_per_round_median = 0;
  double bytes_per_round = 0;
  double peak_memory_bytes = 0;  // resident, the most of any rank
  EvaluatedOn clients;           // of the metrics
  EvaluatedOn held_out;          // of those that begin with held_out_
  // Files of the user's own rules, each with the key that names it.
  std::vector<std::pair<std::string, RuleFile*>> rules;
  Metrics metrics;
};

// One JSON object; values that are NaN are left out.
std::string summary_json(const Summary& summary);

// The numbers a person looks for first, on stdout.
void print_summary(const Summary& summary, const std::string& run_directory);

// Most resident memory of this process so far.
double peak_memory_bytes();

// Library versions, "name version" each; no MPI needed.
std::vector<std::pair<std::string, std::string>> versions();

}  // namespace hanse
