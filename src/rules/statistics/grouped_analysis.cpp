#include "grouped_analysis.hpp"

#include <cmath>

namespace hanse {

GroupedAnalysis::GroupedAnalysis(const AnalysisSetup& setup, CategoryCoding coding)
    : options_(setup.options),
      table_(setup.table),
      groups_(table_, options_.by, "statistics.by"),
      features_(chosen_features(setup, coding, groups_.columns())),
      knows_groups_(!groups_.are_asked()) {}

std::optional<Question> GroupedAnalysis::question() {
  return knows_groups_ ? next_question() : AskedGroups::question(kGroups, {});
}

SampleFindings GroupedAnalysis::open(const Question& question) const {
  if (question.step != kGroups) return open_next(question);
  SampleFindings findings;
  findings.distinct.resize(1);
  return findings;
}

void GroupedAnalysis::look(const Question& question, const Samples& samples,
                           SampleFindings& findings) const {
  if (question.step != kGroups) return look_next(question, samples, findings);
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const double group = groups_.value_of(samples, i);
    if (!std::isnan(group)) findings.distinct[0].add(group);
  }
}

void GroupedAnalysis::hear(SampleFindings findings) {
  if (knows_groups_) return hear_next(findings);
  values_ = findings.distinct[0].sorted();
  groups_.check(values_);
  knows_groups_ = true;
}

ResultTable GroupedAnalysis::grouped_table(const std::string& name,
                                           const std::vector<std::string>& columns) const {
  ResultTable table{name, {}};
  if (groups_.are_asked()) table.columns.push_back(groups_.title());
  table.columns.insert(table.columns.end(), columns.begin(), columns.end());
  return table;
}

std::vector<Cell>& GroupedAnalysis::add_row(ResultTable& table, std::size_t group) const {
  std::vector<Cell>& row = table.rows.emplace_back();
  if (groups_.are_asked()) {
    row.emplace_back(group == 0 ? "all" : groups_.name_of(values_[group - 1]));
  }
  return row;
}

}  // namespace hanse
