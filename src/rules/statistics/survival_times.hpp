// Survival samples: until when each was watched, and whether its event came then; and their counts
// by group, stratum and time.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "features.hpp"
#include "hanse/rules/statistics/analysis.hpp"

namespace hanse {

struct SurvivalSample {
  double time = 0;
  bool has_event = false;  // else the sample is censored: its event would come later
};

// A time rounded up to a multiple of `grid`; 0: as it is. A time that float32 has rounded from a
// multiple counts as that one.
double on_grid(double time, double grid);

// statistics.time and statistics.event. Where the names of a category's levels, or of classes, are
// numbers, these count.
class SurvivalColumns {
 public:
  // Throws InvalidArgument: there is no such column, both are one, or a level is no such number.
  explicit SurvivalColumns(const AnalysisSetup& setup);

  // Nothing: the time or the event is missing. Throws InvalidArgument, which names the client: a
  // time that is negative or infinite, an event other than 0 and 1.
  std::optional<SurvivalSample> of(const Samples& samples, std::size_t i) const;
  std::vector<std::size_t> columns() const { return {time_, event_}; }

 private:
  double value_of(std::size_t column, const std::vector<double>& levels, float value) const;
  [[noreturn]] void refuse(const std::string& what, const char* key, int64_t client) const;

  std::vector<std::string> clients_;
  std::size_t time_, event_;
  std::vector<double> time_levels_, event_levels_;  // empty: values are numbers
  double grid_;
};

// The distinct times of some samples, and how many events came and samples left at each.
struct LifeTable {
  std::vector<double> times;              // ascending
  std::vector<int64_t> events, censored;  // [times]

  std::size_t size() const { return times.size(); }
  int64_t samples() const;
  int64_t all_events() const;
  // [times] samples whose time is that one or later.
  std::vector<int64_t> at_risk() const;
};

// The life table of all their samples.
LifeTable joined(const std::vector<const LifeTable*>& tables);

// The looks of statistics that need the life tables of groups within strata alone: the values of
// statistics.by and of a column of strata; distinct times; counts.
class SurvivalCounts : public Analysis {
 public:
  SurvivalCounts(const AnalysisSetup& setup, const std::string& strata);

  std::optional<Question> question() override;
  SampleFindings open(const Question& question) const override;
  void look(const Question& question, const Samples& samples,
            SampleFindings& findings) const override;
  // Throws InvalidArgument: no sample has a time and an event, too many groups.
  void hear(SampleFindings findings) override;

 protected:
  // At least 1 of each: without groups, or strata, all samples are one.
  std::size_t groups() const;
  std::size_t strata() const;
  const LifeTable& table(std::size_t group, std::size_t stratum) const {
    return tables_[group * strata() + stratum];
  }
  std::string group_name(std::size_t group) const;
  LifeTable table_of_group(std::size_t group) const;
  LifeTable table_of_stratum(std::size_t stratum) const;
  int64_t missing() const { return missing_; }
  const StatisticsOptions& options() const { return options_; }
  const SampleGroups& by() const { return by_; }

 private:
  enum Step : int64_t { kValues, kTimes, kCounts, kEnd };
  struct Asked;

  void take_values(SampleFindings& findings);
  void take_counts(const SampleFindings& findings);

  StatisticsOptions options_;
  TableFacts facts_;
  SurvivalColumns survival_;
  SampleGroups by_, strata_;
  int64_t step_;
  std::vector<double> group_values_, stratum_values_;
  std::vector<LifeTable> tables_;  // [groups, strata]
  int64_t missing_ = 0;            // samples that lack a time, an event, a group or a stratum
};

}  // namespace hanse
