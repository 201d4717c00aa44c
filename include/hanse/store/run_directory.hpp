// The files of a run: job.cfg, rounds.csv, evaluations.csv, metrics.jsonl, decisions.csv, the
// protocol's own tables (sampling.csv, participation.csv, directions.csv, online.csv, weights.csv,
// bandit.csv), partition.csv, features.csv, clients.csv, scores.csv, best-scores.csv, summary.json,
// model.h5, checkpoints/, repeats/. Written by rank 0.
#pragma once

#include <cstdint>
#include <exception>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "hanse/protocol/protocol.hpp"
#include "hanse/store/atomic_file.hpp"
#include "hanse/store/run_lock.hpp"

namespace hanse {

// Locks the folder of a new run, and makes it if it is missing. Throws InvalidArgument: another run
// writes it, it is a file, it cannot be made or written, or, unless `overwrite`, it holds a run's
// results or anything else.
RunLock claim_output(const std::string& path, bool overwrite);

class RunDirectory {
 public:
  // Removes an earlier run's files, by the names above alone.
  static void clear(const std::string& path);
  // Begins a new run: clears the folder and writes job.cfg. The names of `round_columns` are the
  // columns of rounds.csv behind those of every protocol: RoundRecord::more.
  static RunDirectory create(const std::string& path, const std::string& job_text,
                             const Metrics& round_columns = {});
  // Goes on after `completed` rounds: cuts the CSV files behind them, those of evaluations also
  // behind round `evaluated`, and removes summary.json. Copies the results of `from` first when it
  // is another folder.
  static RunDirectory reopen(const std::string& path, const std::string& from, int64_t completed,
                             const std::string& job_text, const Metrics& round_columns = {},
                             int64_t evaluated = std::numeric_limits<int64_t>::max());

  void append_round(const RoundRecord& record);
  // Appends a line to evaluations.csv, and the finite metrics as JSON to metrics.jsonl. `splits`,
  // columns before the metrics, say which samples were evaluated: test, train or mixed.
  void append_evaluation(int64_t round, const Metrics& metrics,
                         const std::vector<std::pair<std::string, std::string>>& splits = {});
  // The rule's weights over all clients, [M], after the round. The first call creates
  // decisions.csv.
  void append_decision(int64_t round, std::span<const double> decision);
  // Appends lines to a protocol's own table. The first ones create the file.
  void append_lines(const TableLines& table);
  // Replaces clients.csv. Accuracies are empty for regression, names if the data have none, and
  // name and split of clients that the federation does not have (bandits). Two classes have a
  // column auroc, and each asked metric has one; the `added` columns come last.
  void write_clients(const EvaluationTable& clients, const Federation& federation,
                     const AskedMetrics& asked = {}, const Columns& added = {});
  // Replaces `file`, kScores or kBestScores.
  static constexpr const char* kScores = "scores.csv";
  static constexpr const char* kBestScores = "best-scores.csv";
  void write_scores(const char* file, const SampleTable& samples, const Federation& federation);
  // Replaces partition.csv: for the first 1,000 clients a line for each of their labels, with the
  // number of samples. Nothing for regression.
  void write_partition(const Federation& federation);
  // Replaces features.csv by what the data's names know of the features.
  static constexpr const char* kFeatures = "features.csv";
  void write_features(const FederationNames& names);
  void write_summary(const std::string& json);
  // Writes what has ended the run, and no line of it where that fails, too.
  static constexpr const char* kFailure = "failed.txt";
  void note_failure(const std::exception_ptr& failure) noexcept;
  // Writes buffered lines to the files. Throws IoError on a full disk.
  void flush();
  void flush_each_second();  // no more often
  // Flushes, then brings the files to the disk. Cost: a flush of the disk for each.
  void sync();

  const std::string& path() const { return path_; }
  std::string file(const std::string& name) const { return path_ + "/" + name; }
  std::string checkpoints() const { return file("checkpoints"); }

  // The median over all rounds so far, those before a resume included.
  double round_seconds_median() const;
  double seconds() const;
  double bytes_per_round() const;
  // The bytes of all updates that clients have sent so far; nothing where rounds.csv does not tell.
  std::optional<double> update_bytes() const { return update_bytes_; }
  // Round of the last line of evaluations.csv when the directory was opened; -1: none.
  int64_t last_evaluation() const { return last_evaluation_; }

 private:
  // Goes on with the files that exist.
  RunDirectory(std::string path, const std::string& job_text, const Metrics& round_columns);
  // Opens it at its end; an empty table begins with the header.
  GrowingFile& table(const std::string& name, const std::string& header = "");

  std::string path_;
  std::map<std::string, GrowingFile> tables_;  // by name
  int64_t last_evaluation_ = -1;
  std::vector<float> round_seconds_;
  double bytes_ = 0;
  std::optional<double> update_bytes_;
  double flushed_s_ = 0;  // by flush_each_second(), of monotonic_seconds()
};

}  // namespace hanse
