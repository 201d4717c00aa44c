// Statistics of all clients' samples, exactly those of the samples in one place: one analysis after
// another, a round for each look that one takes at the samples.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hanse/comm/communicator.hpp"
#include "hanse/data/federation.hpp"
#include "hanse/protocol/protocol.hpp"
#include "hanse/rules/statistics/analysis.hpp"

namespace hanse {

class CipherKey;
class PrivateAnswers;
struct PrivacyOptions;

struct NamedAnalysis {
  std::string name;  // "moments"
  std::unique_ptr<Analysis> analysis;
};

// A round: rank 0 asks, every rank looks at its share of the samples, and their findings are added
// as integers on rank 0. Ranks share samples, whosever they are: results depend neither on ranks
// nor on clients. Checkpoints hold the answers so far; a resumed run hears them again. Cost of a
// round: one pass over the samples, a broadcast of the question, and a reduction of 32 bytes for
// each sum.
class StatisticsProtocol final : public Protocol {
 public:
  StatisticsProtocol(const Federation& federation, const TableFacts& table, StatisticsOn on,
                     std::vector<NamedAnalysis> analyses, Communicator& comm);
  ~StatisticsProtocol() override;

  bool has_model() const override { return false; }
  void initialize_model() override;
  RoundRecord round(bool stop_requested) override;
  std::string end() const override;
  std::string results_digest() const override;
  std::string table() const override;
  // statistics.json, and a CSV file for each table of each statistic.
  std::vector<ResultFile> result_files() const override;

  EvaluationTable evaluate() override { return {}; }
  std::span<const float> model_row() const override { return {}; }
  ParameterLayout model_layout() const override { return {}; }
  void resume(const State& state) override;

  int64_t samples() const { return samples_; }

  // From now on answers get noise, of this key. Throws InvalidArgument as PrivateAnswers does.
  // REQUIRES: analyses with a squared_reach().
  void make_private(const PrivacyOptions& options, const CipherKey& key);

 private:
  // The numbers that ranks report after a round; a maximum merges them.
  enum Report { kCommSeconds, kWorkSeconds, kStop, kFailed, kReports };

  Analysis& analysis() { return *analyses_[current_].analysis; }
  bool is_server() const { return comm_.rank() == 0; }
  void ask();
  void find_question();  // rank 0
  void share_question();
  Findings look() const;
  void look_at(int64_t client, SampleRange range, Findings& findings) const;
  void add_up(Findings& findings);
  // `are_kept`: they are of a checkpoint, which has the noise in them.
  void hear(Findings findings, bool are_kept);
  SampleRange samples_of(int64_t client) const;
  void visit(StateFields& fields) override;

  const Federation& federation_;
  Communicator& comm_;
  int64_t labels_;  // columns of the label behind the features
  std::size_t width_;
  StatisticsOn on_;
  int64_t samples_ = 0;  // that count
  std::vector<NamedAnalysis> analyses_;
  std::size_t current_ = 0;
  int64_t iteration_ = 0;          // looks of the current analysis so far
  std::optional<Question> asked_;  // of the next round; nothing on rank 0: there is none
  std::vector<StatisticsResult> results_;
  std::vector<int64_t> whole_;  // all answers so far, one after another
  std::vector<double> numbers_;
  std::unique_ptr<PrivateAnswers> noise_;  // null: there is none
  // Columns of rounds.csv: the statistic, counted from 1, its look, its target and the bytes that
  // clients would send, 8 a number each.
  Metrics last_ = {{"statistic", 0}, {"iteration", 0}, {"value", 0}, {"bytes_updates", 0}};
};

}  // namespace hanse
