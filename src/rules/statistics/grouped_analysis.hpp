// An analysis of the features of all samples and of each group of them, which first looks for its
// groups.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "features.hpp"

namespace hanse {

// Group 0 is of all samples, the others of the values of statistics.by. The first look, step
// kGroups, is for those values; all further questions begin with them (AskedGroups). What follows
// is the kind's: its steps are above kGroups.
class GroupedAnalysis : public Analysis {
 public:
  std::optional<Question> question() final;
  SampleFindings open(const Question& question) const final;
  void look(const Question& question, const Samples& samples, SampleFindings& findings) const final;
  void hear(SampleFindings findings) final;

 protected:
  static constexpr int64_t kGroups = 0;

  GroupedAnalysis(const AnalysisSetup& setup, CategoryCoding coding);

  // As the methods without "next", once the groups are known.
  virtual std::optional<Question> next_question() = 0;
  virtual SampleFindings open_next(const Question& question) const = 0;
  virtual void look_next(const Question& question, const Samples& samples,
                         SampleFindings& findings) const = 0;
  virtual void hear_next(SampleFindings& findings) = 0;

  // A table whose lines begin with a group, if there are groups.
  ResultTable grouped_table(const std::string& name, const std::vector<std::string>& columns) const;
  std::vector<Cell>& add_row(ResultTable& table, std::size_t group) const;

  StatisticsOptions options_;
  TableFacts table_;
  SampleGroups groups_;
  std::vector<StatisticsFeature> features_;
  std::vector<double> values_;  // of the groups, sorted

 private:
  bool knows_groups_;
};

}  // namespace hanse
