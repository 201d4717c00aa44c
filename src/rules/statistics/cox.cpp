// Cox's proportional hazards: hazard ratios of features, tests, the baseline hazard; and each
// group's own fit, with a meta-analysis of these.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "cox_fit.hpp"
#include "elementary.hpp"
#include "hanse/base/error.hpp"
#include "meta.hpp"

namespace hanse {

namespace {

double hazard_ratio(double coefficient) {
  return coefficient > 700 ? std::numeric_limits<double>::infinity() : exp_of(coefficient);
}

class Cox final : public Analysis {
 public:
  explicit Cox(const AnalysisSetup& setup) : table_(setup), fit_(std::in_place, table_, values_) {
    has_values_ = !table_.by.are_asked() && !table_.strata.are_asked();
  }

  std::optional<Question> question() override {
    if (!has_values_) return CoxQuestion().question(CoxStep::kValues);
    while (fit_) {
      if (auto question = fit_->question()) return question;
      end_fit("");
    }
    return std::nullopt;
  }

  Findings open(const Question& question) const override { return open_cox(table_, question); }
  void look(const Question& question, const Samples& samples, Findings& findings) const override {
    look_cox(table_, question, samples, findings);
  }

  void hear(Findings findings) override {
    if (!has_values_) return take_values(findings);
    if (!estimate_) return fit_->hear(std::move(findings));
    try {
      fit_->hear(std::move(findings));
    } catch (const InvalidArgument& refusal) {  // other groups have their fits all the same
      end_fit(refusal.what());
    }
  }

  StatisticsResult result() const override;
  double value() const override { return fit_ ? fit_->log_likelihood() : kNoNumber; }

 private:
  void take_values(Findings& findings) {
    if (table_.strata.are_asked()) {
      values_ = findings.distinct[0].sorted();
      table_.strata.check(values_);
    }
    if (table_.by.are_asked()) {
      groups_ = findings.distinct[1].sorted();
      table_.by.check(groups_);
    }
    has_values_ = true;
    fit_.emplace(table_, values_);
  }

  // Keeps what has come of a fit, and begins the next group's.
  void end_fit(const std::string& refusal) {
    const CoxEstimate& found = fit_->estimate();
    if (!estimate_) {
      estimate_ = found;
    } else {
      GroupFit& own = fits_.emplace_back();
      own.group = table_.by.name_of(groups_[fits_.size() - 1]);
      if (found.n >= table_.options.least_count) own.n = found.n;
      own.refusal = refusal;
      const bool weighs = std::ranges::all_of(
          found.errors, [](double error) { return error > 0 && std::isfinite(error); });
      if (refusal.empty() && !weighs) own.refusal = "a standard error is no positive number";
      if (own.refusal.empty()) {
        own.estimates = found.coefficients;
        own.errors = found.errors;
      }
    }
    fit_.reset();
    if (fits_.size() < groups_.size()) fit_.emplace(table_, values_, groups_[fits_.size()]);
  }

  ResultTable coefficients() const;
  ResultTable baseline(int64_t& hidden) const;

  CoxTable table_;
  bool has_values_;
  std::vector<double> values_, groups_;  // of strata and of statistics.by
  std::optional<CoxFit> fit_;            // the one that asks
  std::optional<CoxEstimate> estimate_;  // of all samples
  std::vector<GroupFit> fits_;           // of the groups before the one that asks
};

ResultTable Cox::coefficients() const {
  ResultTable table{"cox",
                    {"name", "coefficient", "hazard_ratio", "standard_error", "z", "p", "low",
                     "high", "ratio_low", "ratio_high", "mean"}};
  if (table_.options.robust) table.columns.emplace_back("naive_error");
  const double z = normal_quantile(table_.options.level);
  for (std::size_t j = 0; j < table_.p(); ++j) {
    const double b = estimate_->coefficients[j], error = estimate_->errors[j];
    const double low = b - z * error, high = b + z * error;
    table.rows.push_back({table_.features[j].name, b, hazard_ratio(b), error, b / error,
                          normal_p(b / error), low, high, hazard_ratio(low), hazard_ratio(high),
                          estimate_->means[j]});
    if (table_.options.robust) table.rows.back().emplace_back(estimate_->naive_errors[j]);
  }
  return table;
}

ResultTable Cox::baseline(int64_t& hidden) const {
  ResultTable table{.name = "cox-baseline",
                    .columns = {"time", "at_risk", "events", "cumulative_hazard", "survival"},
                    .shown = false};
  if (!values_.empty()) table.columns.insert(table.columns.begin(), "stratum");
  const CoxBins& bins = estimate_->bins;
  const std::vector<int64_t> at_risk = bins.at_risk();
  for (std::size_t s = 0; s < bins.strata(); ++s) {
    for (std::size_t j = bins.begins[s]; j < bins.begins[s + 1]; ++j) {
      if (at_risk[j] < table_.options.least_count) {
        ++hidden;
        continue;
      }
      std::vector<Cell>& row = table.rows.emplace_back();
      if (!values_.empty()) row.emplace_back(table_.strata.name_of(values_[s]));
      const double hazard = estimate_->hazard[j];
      row.insert(row.end(), {bins.times[j], at_risk[j], bins.events[j], hazard, exp_of(-hazard)});
    }
  }
  return table;
}

StatisticsResult Cox::result() const {
  const CoxEstimate& e = *estimate_;
  const auto p = static_cast<double>(table_.p());
  StatisticsResult result;
  int64_t hidden = 0, empty = 0;
  result.tables = {coefficients(), baseline(hidden)};
  result.facts = {{"n", e.n},
                  {"events", e.events},
                  {"missing", e.missing},
                  {"suppressed", hidden},
                  {"ties", choices_of(CoxTies())[static_cast<std::size_t>(table_.options.ties)]},
                  {"iterations", e.iterations},
                  {"log_likelihood", e.log_likelihood},
                  {"null_log_likelihood", e.null_log_likelihood},
                  {"degrees", static_cast<int64_t>(table_.p())},
                  {"likelihood_ratio", e.likelihood_ratio},
                  {"likelihood_ratio_p", chi_squared_p(e.likelihood_ratio, p)},
                  {"wald", e.wald},
                  {"wald_p", chi_squared_p(e.wald, p)},
                  {"score", e.score},
                  {"score_p", chi_squared_p(e.score, p)}};
  for (std::size_t s = 0; s < e.bins.strata(); ++s) {
    empty += e.bins.begins[s] == e.bins.begins[s + 1] ? 1 : 0;
  }
  if (empty > 0) result.notes.push_back(fmt::format("strata without an event: {}", empty));
  if (!table_.by.are_asked()) return result;
  std::vector<std::string> names;
  for (const StatisticsFeature& feature : table_.features) names.push_back(feature.name);
  for (ResultTable& table :
       meta_tables("cox", names, fits_, e.coefficients, e.errors, table_.options.level)) {
    result.tables.push_back(std::move(table));
  }
  const auto refused =
      std::ranges::count_if(fits_, [](const GroupFit& fit) { return fit.estimates.empty(); });
  if (refused > 0) {
    result.notes.push_back(
        fmt::format("groups without a fit of their own: {}, see cox-groups.csv", refused));
  }
  return result;
}

}  // namespace

std::unique_ptr<Analysis> make_cox(const AnalysisSetup& setup) {
  return std::make_unique<Cox>(setup);
}

}  // namespace hanse
