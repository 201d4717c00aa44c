#include "survival_times.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <numeric>

#include <fmt/format.h>

#include "hanse/base/error.hpp"

namespace hanse {

namespace {

constexpr std::size_t kMostSurvivalCells = 10000;  // groups within strata

// The numbers that a category's levels are. Empty: it is no category.
std::vector<double> numbers_of_levels(const TableColumn& column, const char* key) {
  std::vector<double> numbers;
  for (const std::string& level : column.levels) {
    double& number = numbers.emplace_back();
    const char* end = level.data() + level.size();
    const auto read = std::from_chars(level.data(), end, number);
    if (read.ec == std::errc() && read.ptr == end) continue;
    throw InvalidArgument(fmt::format("'{}' has the level '{}', no number", column.name, level),
                          key, "events are 1, censored samples 0; times are numbers");
  }
  return numbers;
}

}  // namespace

double on_grid(double time, double grid) {
  if (!(grid > 0)) return time;
  const double steps = time / grid, nearest = std::nearbyint(steps);
  const bool is_rounded = std::abs(steps - nearest) <= 0x1p-23 * nearest;
  return (is_rounded ? nearest : std::ceil(steps)) * grid;
}

SurvivalColumns::SurvivalColumns(const AnalysisSetup& setup)
    : clients_(setup.table.clients),
      time_(setup.table.find(setup.options.time, "statistics.time")),
      event_(setup.table.find(setup.options.event, "statistics.event")),
      time_levels_(numbers_of_levels(setup.table.columns[time_], "statistics.time")),
      event_levels_(numbers_of_levels(setup.table.columns[event_], "statistics.event")),
      grid_(setup.options.grid) {
  if (time_ != event_) return;
  throw InvalidArgument(fmt::format("'{}' is both the time and the event", setup.options.time),
                        "statistics.event");
}

double SurvivalColumns::value_of(std::size_t column, const std::vector<double>& levels,
                                 float value) const {
  if (levels.empty() || std::isnan(value)) return static_cast<double>(value);
  const auto level = static_cast<std::size_t>(value);
  if (level < levels.size()) return levels[level];
  throw Error(fmt::format("column {} has no level {}", column, value));
}

void SurvivalColumns::refuse(const std::string& what, const char* key, int64_t client) const {
  const auto at = static_cast<std::size_t>(client);
  const std::string who = at < clients_.size() ? clients_[at] : fmt::format("client {}", client);
  throw InvalidArgument(fmt::format("a sample of {} has the {}", who, what), key,
                        "times are 0 or more; events are 1, censored samples 0");
}

std::optional<SurvivalSample> SurvivalColumns::of(const Samples& samples, std::size_t i) const {
  const float* row = samples.row(i);
  const double time = value_of(time_, time_levels_, row[time_]);
  const double event = value_of(event_, event_levels_, row[event_]);
  if (std::isnan(time) || std::isnan(event)) return std::nullopt;
  if (time < 0 || std::isinf(time)) {
    refuse("time " + number_text(time), "statistics.time", samples.client);
  }
  if (event != 0 && event != 1) {
    refuse("event " + number_text(event), "statistics.event", samples.client);
  }
  return SurvivalSample{on_grid(time, grid_), event == 1};
}

int64_t LifeTable::all_events() const {
  return std::accumulate(events.begin(), events.end(), int64_t{0});
}

int64_t LifeTable::samples() const {
  return std::accumulate(censored.begin(), censored.end(), all_events());
}

std::vector<int64_t> LifeTable::at_risk() const {
  std::vector<int64_t> risk(size());
  int64_t left = 0;
  for (std::size_t t = size(); t-- > 0;) risk[t] = left += events[t] + censored[t];
  return risk;
}

LifeTable joined(const std::vector<const LifeTable*>& tables) {
  std::map<double, std::pair<int64_t, int64_t>> counts;
  for (const LifeTable* table : tables) {
    for (std::size_t t = 0; t < table->size(); ++t) {
      auto& [events, censored] = counts[table->times[t]];
      events += table->events[t];
      censored += table->censored[t];
    }
  }
  LifeTable all;
  for (const auto& [time, count] : counts) {
    all.times.push_back(time);
    all.events.push_back(count.first);
    all.censored.push_back(count.second);
  }
  return all;
}

// The numbers of a question: the groups' values and the strata's, each behind their number; and
// each cell's times behind theirs. A cell is a group within a stratum.
struct SurvivalCounts::Asked {
  explicit Asked(const Question& question) : at(question.numbers.data()) {
    groups = next();
    strata = next();
    cells = std::max<std::size_t>(groups.size(), 1) * std::max<std::size_t>(strata.size(), 1);
    begins.push_back(0);
    for (std::size_t cell = 0; question.step == kCounts && cell < cells; ++cell) {
      times.push_back(next());
      begins.push_back(begins.back() + times.back().size());
    }
  }

  std::span<const double> next() {
    const auto size = static_cast<std::size_t>(*at);
    const std::span<const double> list(at + 1, size);
    at += size + 1;
    return list;
  }

  std::size_t cell_of(double group, double stratum) const {
    return place(groups, group) * std::max<std::size_t>(strata.size(), 1) + place(strata, stratum);
  }
  // The place of a cell's time among all counts.
  std::size_t place_of(std::size_t cell, double time) const {
    return begins[cell] + place(times[cell], time);
  }
  static std::size_t place(std::span<const double> values, double value) {
    if (values.empty()) return 0;
    const int64_t found = place_among(values.data(), values.data() + values.size(), value);
    if (found < 0) throw Error("a look has found a value that no look before it has");
    return static_cast<std::size_t>(found);
  }

  const double* at;
  std::span<const double> groups, strata;  // values; empty: they are not asked
  std::size_t cells;
  std::vector<std::span<const double>> times;  // [cells]
  std::vector<std::size_t> begins;             // [cells + 1] of their times
};

SurvivalCounts::SurvivalCounts(const AnalysisSetup& setup, const std::string& strata)
    : options_(setup.options),
      facts_(setup.table),
      survival_(setup),
      by_(facts_, options_.by, "statistics.by"),
      strata_(facts_, strata, "statistics.strata"),
      step_(by_.are_asked() || strata_.are_asked() ? kValues : kTimes) {}

std::optional<Question> SurvivalCounts::question() {
  if (step_ == kEnd) return std::nullopt;
  Question question{step_};
  const auto add = [&](const std::vector<double>& list) {
    question.numbers.push_back(static_cast<double>(list.size()));
    question.numbers.insert(question.numbers.end(), list.begin(), list.end());
  };
  add(group_values_);
  add(stratum_values_);
  for (const LifeTable& table : tables_) add(table.times);
  return question;
}

SampleFindings SurvivalCounts::open(const Question& question) const {
  const Asked asked(question);
  SampleFindings findings;
  if (question.step == kValues) findings.distinct.resize(2);
  if (question.step == kTimes) findings.distinct.resize(asked.cells);
  if (question.step == kCounts) findings.counts.resize(2 * asked.begins.back() + 1);
  return findings;
}

void SurvivalCounts::look(const Question& question, const Samples& samples,
                          SampleFindings& findings) const {
  const Asked asked(question);
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const auto sample = survival_.of(samples, i);
    const double group = by_.are_asked() ? by_.value_of(samples, i) : 0;
    const double stratum = strata_.are_asked() ? strata_.value_of(samples, i) : 0;
    if (!sample || std::isnan(group) || std::isnan(stratum)) {
      if (question.step == kCounts) ++findings.counts.back();
      continue;
    }
    if (question.step == kValues) {
      findings.distinct[0].add(group);
      findings.distinct[1].add(stratum);
      continue;
    }
    const std::size_t cell = asked.cell_of(group, stratum);
    if (question.step == kTimes) findings.distinct[cell].add(sample->time);
    if (question.step != kCounts) continue;
    const std::size_t place = asked.place_of(cell, sample->time);
    ++findings.counts[2 * place + (sample->has_event ? 0 : 1)];
  }
}

void SurvivalCounts::take_values(SampleFindings& findings) {
  if (by_.are_asked()) by_.check(group_values_ = findings.distinct[0].sorted());
  if (strata_.are_asked()) strata_.check(stratum_values_ = findings.distinct[1].sorted());
  if (groups() * strata() <= kMostSurvivalCells) return;
  throw InvalidArgument(fmt::format("{} groups in {} strata are too many: {} times {} are the most",
                                    groups(), strata(), kMostSurvivalCells / strata(), strata()),
                        "statistics.strata", "name a column of few values");
}

void SurvivalCounts::take_counts(const SampleFindings& findings) {
  std::size_t next = 0;
  for (LifeTable& table : tables_) {
    for (std::size_t t = 0; t < table.size(); ++t) {
      table.events.push_back(findings.counts[next++]);
      table.censored.push_back(findings.counts[next++]);
    }
  }
  missing_ = findings.counts.back();
  if (next > 0) return;
  throw InvalidArgument(
      fmt::format("no sample has both '{}' and '{}'", options_.time, options_.event),
      "statistics.time");
}

void SurvivalCounts::hear(SampleFindings findings) {
  if (step_ == kValues) take_values(findings);
  if (step_ == kTimes) {
    for (DistinctValues& times : findings.distinct) tables_.push_back({times.sorted(), {}, {}});
  }
  if (step_ == kCounts) take_counts(findings);
  ++step_;
}

std::size_t SurvivalCounts::groups() const {
  return std::max<std::size_t>(group_values_.size(), 1);
}
std::size_t SurvivalCounts::strata() const {
  return std::max<std::size_t>(stratum_values_.size(), 1);
}

std::string SurvivalCounts::group_name(std::size_t group) const {
  return by_.are_asked() ? by_.name_of(group_values_[group]) : "all";
}

LifeTable SurvivalCounts::table_of_group(std::size_t group) const {
  std::vector<const LifeTable*> own;
  for (std::size_t s = 0; s < strata(); ++s) own.push_back(&table(group, s));
  return joined(own);
}

LifeTable SurvivalCounts::table_of_stratum(std::size_t stratum) const {
  std::vector<const LifeTable*> own;
  for (std::size_t g = 0; g < groups(); ++g) own.push_back(&table(g, stratum));
  return joined(own);
}

}  // namespace hanse
