// summary.json and the table at the end of a run: how its ranks spent their time, and the samples
// on which clients are evaluated, for tests, for validation or for training.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "hanse/base/energy.hpp"
#include "hanse/base/rule_file.hpp"
#include "hanse/comm/communicator.hpp"
#include "hanse/evaluation/asked_metrics.hpp"
#include "hanse/protocol/protocol.hpp"

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

// Seconds since this start of the program, without those before a resume.
struct PhaseAccount {
  std::string name;
  int64_t calls = 0;                           // on the rank with the most
  double mean_s = 0, least_s = 0, most_s = 0;  // over the ranks
};

struct Accounts {
  double wall_s = 0;
  std::vector<PhaseAccount> phases;  // that any rank was in; the means sum to wall_s
  int64_t participants = 0;          // that were trained
  double rounds_s = 0;               // of the rounds that trained them
  double flops = 0;                  // by all ranks' models (Model::flops); 0: not known
  double host_memory_bytes = 0;      // resident peak, on the host with the most
  std::optional<double> joules;      // the hosts' processors', other programs' included

  double clients_per_second() const { return static_cast<double>(participants) / rounds_s; }
  double gflops() const { return 1e-9 * flops / rounds_s; }  // a second
};

// Peak resident memory of this process so far.
double peak_memory_bytes();

// A rank's part of the accounts, as Accounts has it; participants and their seconds are rank 0's.
struct RankAccount {
  EnergyMeter energy;
  int64_t participants = 0;
  double rounds_s = 0;
  double flops = 0;
};

// Gathers the ranks' accounts on rank 0; `host` has the ranks of this host. Collective.
Accounts gather_accounts(Communicator& comm, Communicator& host, RankAccount& mine);

// The round in which a training has diverged, and why; 0: it has not.
struct DivergedRound {
  int64_t round = 0;
  std::string reason = {};  // one sentence, and where
};

// What may end a run before its last round.
struct RunLimits {
  DivergedRound diverged = {};
  std::string target = {};     // run.target; empty: none
  double virtual_seconds = 0;  // run.virtual-seconds; 0: none
};

// What a private run has cost, by the accountant that counts.
struct PrivacyReport {
  double epsilon = 0;
  double delta = 0;
  std::string accountant;                 // whose epsilon it is
  std::string flaw;                       // privacy_flaw()
  std::vector<std::string> applied = {};  // the accountants that have a bound, be it infinite
};

struct RunTimes {
  double set_up_s = 0;  // from the start of the process to the first round
  double rounds_s = 0;  // of all rounds
  double median_s = 0;  // of a round
};

// What makes the products of models.
struct ProductFacts {
  std::string precision = "float32";  // model.precision
  std::string kernels;                // of another precision; empty: float32
};

struct Summary {
  std::string name;
  int64_t seed = 0;
  int64_t rounds = 0;
  RunLimits limits = {};
  int64_t ranks = 1;
  std::string trained_on;  // trains the clients: "cpu", or a GPU with its libraries
  bool simulated = false;  // no client was trained
  ProductFacts products;
  std::string digest_of;    // "model", or "results" of a run without one
  std::string digest;       // of those
  std::string data_digest;     // of samples, labels, clients and test parts
  RunTimes times;
  double bytes_per_round = 0;
  double peak_memory_bytes = 0;  // resident, on the rank with the most
  EvaluatedOn clients;           // for the metrics
  EvaluatedOn held_out;          // for metrics that begin with held_out_
  // Files of the user's own rules, each with the key that names it.
  std::vector<std::pair<std::string, RuleFile*>> rules;
  Metrics metrics;
  Accounts accounts;
  std::vector<ReturnedArm> returned;  // a bandit's x_hat in summary.json
  std::optional<PrivacyReport> privacy = {};
};

// One JSON object; values that are NaN are left out.
std::string summary_json(const Summary& summary);

// The numbers a person looks for first.
std::string summary_table(const Summary& summary, const std::string& run_directory);

// Means and deviations over the repeats of a job.
struct RepeatedMetrics {
  int64_t repeats = 0;
  int64_t diverged = 0;              // of them
  Metrics metrics;                   // NAME, and for several repeats NAME_std
  std::map<std::string, int64_t> n;  // by NAME: repeats that have it; a target may be missed
  std::optional<PrivacyReport> privacy = {};  // of each
};

// `split` and `held_out_split` are EvaluatedOn::split()'s.
std::string repeats_table(const RepeatedMetrics& found, const std::string& split,
                          const std::string& held_out_split, const std::string& run_directory);

// Library versions, "name version" each; no MPI needed.
std::vector<std::pair<std::string, std::string>> versions();

}  // namespace hanse
