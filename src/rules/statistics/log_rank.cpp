// The log-rank test of equal survival of groups, with weights of Gehan and Wilcoxon or of Tarone
// and Ware, and strata.
#include <cmath>

#include <fmt/format.h>

#include "decompositions.hpp"
#include "hanse/base/error.hpp"
#include "survival_times.hpp"

namespace hanse {

namespace {

constexpr double kNoInverse = 1e-12;  // rcond of a variance below it has no inverse

double weight_of_time(LogRankWeights weighting, double n) {
  switch (weighting) {
    case LogRankWeights::kLogRank: return 1;
    case LogRankWeights::kWilcoxon: return n;
    case LogRankWeights::kTaroneWare: return std::sqrt(n);
  }
  throw Error("unknown weights of a log-rank test");
}

// The sums of (G9) over times and strata.
struct LogRankSums {
  explicit LogRankSums(Eigen::Index groups)
      : observed(Eigen::VectorXd::Zero(groups)),
        expected(Eigen::VectorXd::Zero(groups)),
        variance(Eigen::MatrixXd::Zero(groups, groups)) {}

  // At one time: d [groups] events among n [groups] at risk.
  void add(const Eigen::VectorXd& d, const Eigen::VectorXd& n, LogRankWeights weighting) {
    const double all = n.sum(), events = d.sum(), w = weight_of_time(weighting, all);
    const Eigen::VectorXd share = n / all;
    observed += w * d;
    expected += w * events * share;
    if (all == 1) return;
    const double factor = w * w * events * (all - events) / (all - 1);
    variance -= factor * (share * share.transpose());
    variance.diagonal() += factor * share;
  }

  Eigen::VectorXd observed, expected;
  Eigen::MatrixXd variance;
};

// Steps through one table's numbers at risk at the times of another.
class AtRisk {
 public:
  explicit AtRisk(const LifeTable& table) : table_(table), left_(table.samples()) {}

  // REQUIRES: times ascend. Returns the samples whose time is this one or later, and the events.
  std::pair<int64_t, int64_t> at(double time) {
    for (; next_ < table_.size() && table_.times[next_] < time; ++next_) {
      left_ -= table_.events[next_] + table_.censored[next_];
    }
    const bool has_row = next_ < table_.size() && table_.times[next_] == time;
    return {left_, has_row ? table_.events[next_] : 0};
  }

 private:
  const LifeTable& table_;
  std::size_t next_ = 0;
  int64_t left_;
};

class LogRank final : public SurvivalCounts {
 public:
  explicit LogRank(const AnalysisSetup& setup) : SurvivalCounts(setup, setup.options.strata) {}

  void hear(Findings findings) override {
    SurvivalCounts::hear(std::move(findings));
    if (question()) return;
    if (groups() < 2) {
      throw InvalidArgument(
          fmt::format("'{}' has one value: there is no group to compare with", options().by),
          "statistics.by", "name a column of two values or more");
    }
    for (std::size_t s = 0; s < strata(); ++s) {
      if (table_of_stratum(s).all_events() > 0) return;
    }
    throw InvalidArgument("no sample has an event: survival is the same everywhere",
                          "statistics.event", "events are 1, censored samples 0");
  }

  StatisticsResult result() const override {
    StatisticsResult result;
    LogRankSums sums(static_cast<Eigen::Index>(groups()));
    int64_t empty = 0;
    for (std::size_t s = 0; s < strata(); ++s) empty += add_stratum(s, sums) ? 0 : 1;
    if (empty > 0) result.notes.push_back(fmt::format("strata without an event: {}", empty));
    const auto [chi2, degrees] = test(sums, result.notes);
    result.tables.push_back(table_of(sums));
    int64_t hidden = 0;
    for (std::size_t g = 0; g < groups(); ++g) {
      hidden += table_of_group(g).samples() < options().least_count ? 1 : 0;
    }
    result.facts = {{"chi2", chi2},
                    {"degrees", static_cast<int64_t>(degrees)},
                    {"p", chi_squared_p(chi2, static_cast<double>(degrees))},
                    {"missing", missing()},
                    {"suppressed", hidden}};
    return result;
  }

 private:
  // Returns whether the stratum has an event.
  bool add_stratum(std::size_t stratum, LogRankSums& sums) const {
    std::vector<AtRisk> risks;
    for (std::size_t g = 0; g < groups(); ++g) risks.emplace_back(this->table(g, stratum));
    const LifeTable all = table_of_stratum(stratum);
    Eigen::VectorXd d(sums.observed.size()), n(sums.observed.size());
    for (std::size_t t = 0; t < all.size(); ++t) {
      if (all.events[t] == 0) continue;
      for (std::size_t g = 0; g < groups(); ++g) {
        const auto [left, events] = risks[g].at(all.times[t]);
        n[static_cast<Eigen::Index>(g)] = static_cast<double>(left);
        d[static_cast<Eigen::Index>(g)] = static_cast<double>(events);
      }
      sums.add(d, n, options().weighting);
    }
    return all.all_events() > 0;
  }

  // chi^2 = (O - E)' V^-1 (O - E) without the last group, and its degrees of freedom. Groups of
  // which nobody is at risk when an event comes do not take part.
  std::pair<double, Eigen::Index> test(const LogRankSums& sums,
                                       std::vector<std::string>& notes) const {
    std::vector<Eigen::Index> kept;
    for (Eigen::Index g = 0; g < sums.expected.size(); ++g) {
      if (sums.expected[g] > 0) {
        kept.push_back(g);
      } else {
        notes.push_back(fmt::format("'{}' is left out: none of it is at risk at an event",
                                    group_name(static_cast<std::size_t>(g))));
      }
    }
    kept.pop_back();  // some group has had an event
    const auto degrees = static_cast<Eigen::Index>(kept.size());
    const Eigen::VectorXd off = (sums.observed - sums.expected)(kept);
    const Cholesky<ByColumns> root(sums.variance(kept, kept));
    if (degrees > 0 && root.exists() && root.rcond() > kNoInverse) {
      return {off.dot(root.solve(off)), degrees};
    }
    notes.emplace_back(
        "the groups cannot be compared: the variance of their events has no inverse");
    return {kNoNumber, degrees};
  }

  ResultTable table_of(const LogRankSums& sums) const {
    ResultTable table{"log-rank", {"group", "n", "events", "observed", "expected", "ratio"}};
    for (std::size_t g = 0; g < groups(); ++g) {
      const LifeTable own = table_of_group(g);
      std::vector<Cell>& row = table.rows.emplace_back();
      row = {group_name(g), own.samples(), own.all_events()};
      const auto at = static_cast<Eigen::Index>(g);
      const double observed = sums.observed[at], expected = sums.expected[at];
      for (const double number : {observed, expected, observed / expected}) {
        row.emplace_back(number);
      }
      if (own.samples() < options().least_count) std::fill(row.begin() + 1, row.end(), kNoNumber);
    }
    return table;
  }
};

}  // namespace

std::unique_ptr<Analysis> make_log_rank(const AnalysisSetup& setup) {
  return std::make_unique<LogRank>(setup);
}

}  // namespace hanse
