// What a run knows of its clients at the moment, and the models that it writes: best.h5, model.h5,
// averaged.h5 and state_dict.pt.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hanse/base/progress.hpp"
#include "hanse/evaluation/evaluation.hpp"
#include "hanse/job/job.hpp"
#include "hanse/plugin/rules.hpp"
#include "hanse/run/assembly.hpp"
#include "hanse/run/summary.hpp"
#include "hanse/store/client_history.hpp"

namespace hanse {

class Federation;
class Protocol;
class RunDirectory;
struct Job;

// What the last evaluation found; rank 0's, but for what it was made on.
struct LastEvaluation {
  EvaluationTable clients;
  std::vector<double> train_losses;  // [M] NaN: of a client that it was not of
  Metrics metrics;
  // The samples behind the metrics, and behind validation_*, where there are both.
  EvaluatedOn clients_on, held_out_on, validation_on;
  int64_t round = -1;
  std::optional<double> attack_success;  // of attacks that poison data

  // Sets the samples that evaluations are made on.
  void set_samples(const Federation& federation, EvaluateOn on);
  // Begins to keep a history, or goes on with that of a run resumed behind round `done`; -1: none.
  void open_history(const std::string& path, int64_t done, const Federation& federation,
                    const AskedMetrics& asked);

  // What the line of progress says of it: the accuracy on the common test set, where there is one.
  ProgressStatus progress(int64_t completed, int64_t rounds, double loss) const;

  OwnMetric own_metric;                  // null: none
  std::optional<ClientHistory> history;  // nothing: not kept

  // Finds how often the present model does what attackers that poison data want. Collective.
  void find_attack_success(const Job& job, Assembly& parts, Communicator& comm);

  // Sums up what `protocol` has found behind its rounds, and writes it to the run directory where
  // it does not stand there before a resume. Throws InvalidArgument: a metric of the user's own has
  // the name of another.
  void take(EvaluationTable found, const Job& job, const Federation& federation, Protocol& protocol,
            RunDirectory& directory);
};

// The digest of the model, with the frozen matrices that its rounds move, or of the results of a
// protocol without one. Rank 0.
ResultDigest digest_of(Assembly& parts);

// What a private run has cost, of the metrics that its protocol adds to the summary; nothing of
// another run.
std::optional<PrivacyReport> privacy_report(const PrivacyOptions& options, const Metrics& metrics);

// Adds what a run has cost and been about, beside its accuracy, to the summary's metrics:
// virtual_seconds with a clock, privacy_epsilon of a private run, attackers where there are such,
// update_bytes that clients have sent, and update_bytes_per_client, the mean over all clients. Rank
// 0.
void add_costs(const Job& job, const Assembly& parts, const RunDirectory& directory,
               double virtual_s, Metrics& metrics);

// Writes the model as it is now, with all tensors that it has beside those that are trained, to a
// file that ends in .pt (a state dict) or .h5. Rank 0, after collect(). Throws IoError.
void write_present_model(const Job& job, Assembly& parts, const std::string& path);

// Writes what a run knows of its data before it trains: partition.csv, and features.csv for a
// model. Rank 0.
void write_start(const Assembly& parts, RunDirectory& directory);

// Writes best.h5, and best-scores.csv where the scores of samples are asked for. Rank 0, as above.
void write_best(const Job& job, Assembly& parts, RunDirectory& directory);

// Writes what training has come to: clients.csv, confusion.csv, scores.csv and the models; without
// a model the files that the protocol's assembly has. Rank 0, as above.
void write_results(const Job& job, Assembly& parts, const LastEvaluation& last,
                   RunDirectory& directory);

}  // namespace hanse
