// What a model says of each sample: the lines of scores.csv (evaluate.scores).
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "hanse/comm/communicator.hpp"
#include "hanse/data/federation.hpp"
#include "hanse/evaluation/asked_metrics.hpp"

namespace hanse {

// The part that a sample has in the job: a client trains on it, chooses by it, or is tested on it;
// or its client is held out of training, for tests or for validation.
enum class Fold : int64_t { kTrain, kValidation, kTest, kHeldOut };
constexpr auto choices_of(Fold) { return std::array{"train", "validation", "test", "held-out"}; }

// Samples of clients one after another, by client and then by their places in the federation. The
// client of the common test set's samples is kNobody. Memory: 4 bytes a score.
class SampleTable {
 public:
  static constexpr int64_t kNobody = -1;

  // Appends samples of a client, of each of which the model says `said`
  // [range.size() * k], k numbers as ScoredSamples::said() has them.
  void add(int64_t client, const Federation& federation, SampleRange range,
           std::span<const float> said);
  // Brings the samples of all ranks to rank 0, in their order; empty elsewhere. Collective. Memory
  // of rank 0: the table once more.
  void gather(Communicator& comm);

  bool empty() const { return parts_.empty(); }
  std::size_t parts() const { return parts_.size(); }
  // The columns' names: client, row, fold, label, score; of several classes score_0, score_1 and so
  // on, of several outputs or labels a sample also label_0 and so on.
  static std::string header(const Federation& federation);
  // The lines of the i-th part. A score is the probability of a class (or of class 1 of two, or of
  // a label), in 17 digits, or the number that is predicted; empty: NaN.
  std::string lines(std::size_t i, const Federation& federation) const;

 private:
  // Samples with the same client and fold.
  struct Part {
    int64_t client;
    Fold fold;
    SampleRange range;
    int64_t at;  // the place of its first score
  };

  std::vector<Part> parts_;
  std::vector<float> said_;
};

// Bytes that rank 0 takes at most for the table of an evaluation of all clients; 0: not asked for.
double sample_table_bytes(const Federation& federation, const AskedMetrics& asked);

}  // namespace hanse
