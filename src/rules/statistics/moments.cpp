// Numbers of columns: mean, deviation, skewness, kurtosis, covariance, and tests between groups.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "grouped_analysis.hpp"
#include "hanse/base/error.hpp"

namespace hanse {

namespace {

// The moments of one column in one group, as far as they are known.
struct ColumnMoments {
  int64_t n = 0, missing = 0;
  double min = kNoNumber, max = kNoNumber, mean = kNoNumber;
  double squares = 0, cubes = 0, fourths = 0;  // sums of powers of x - mean

  double variance() const { return n > 1 ? squares / static_cast<double>(n - 1) : kNoNumber; }
  double deviation() const { return std::sqrt(variance()); }
  // Both are the sample's, sums divided by n, as scipy's defaults.
  double skewness() const {
    const double n_ = static_cast<double>(n);
    return cubes / n_ / std::pow(squares / n_, 1.5);
  }
  double kurtosis() const {
    const double n_ = static_cast<double>(n);
    return fourths / n_ / (squares / n_ * (squares / n_)) - 3;
  }
  // The largest |x - mean|.
  double reach() const { return n > 0 ? std::max(max - mean, mean - min) : 0; }
};

// Looks: the groups; numbers and extremes; sums; powers and products of what is centred. Group 0 is
// of all samples, the others of the values of statistics.by.
class Moments final : public GroupedAnalysis {
 public:
  enum Step : int64_t { kExtremes = kGroups + 1, kSums, kPowers };

  explicit Moments(const AnalysisSetup& setup)
      : GroupedAnalysis(setup, CategoryCoding::kEach), step_(kExtremes) {}

  std::optional<Question> next_question() override {
    if (step_ > kPowers) return std::nullopt;
    Question question = AskedGroups::question(step_, values_);
    auto& numbers = question.numbers;
    if (step_ == kSums) {
      for (const auto& m : moments_) numbers.push_back(std::max(std::abs(m.min), std::abs(m.max)));
    }
    if (step_ == kPowers) {
      for (const auto& m : moments_) numbers.push_back(m.mean);
      for (const auto& m : moments_) numbers.push_back(m.reach());
      numbers.insert(numbers.end(), complete_means_.begin(), complete_means_.end());
      for (std::size_t j = 0; j < p(); ++j) numbers.push_back(complete_reach(j));
    }
    return question;
  }

  SampleFindings open_next(const Question& question) const override {
    SampleFindings findings;
    const Asked asked(question, p());
    const std::size_t cells = asked.groups() * p();
    if (question.step == kExtremes) {
      findings.counts.resize(2 * cells + 1);
      findings.largest = SampleFindings::none(2 * cells);
    }
    if (question.step == kSums) {
      std::vector<double> bounds(asked.numbers, asked.numbers + cells);
      bounds.insert(bounds.end(), asked.numbers, asked.numbers + p());
      for (double& bound : bounds) bound = std::isnan(bound) ? 0 : bound;
      findings.sums = Tally(bounds);
    }
    if (question.step == kPowers) findings.sums = Tally(3 * cells + packed_size(p()), 1);
    return findings;
  }

  void look_next(const Question& question, const Samples& samples,
                 SampleFindings& findings) const override {
    const Asked asked(question, p());
    std::vector<double> x(p());
    for (std::size_t i = 0; i < samples.size(); ++i) {
      const double group = groups_.value_of(samples, i);
      const bool complete = known_features(features_, samples.row(i), x.data());
      findings.sums.next_sample();
      count(asked, question.step, 0, x, findings);
      if (const auto own = asked.in.place(group)) count(asked, question.step, *own, x, findings);
      if (complete) count_complete(asked, question.step, x, findings);
    }
  }

  void hear_next(SampleFindings& findings) override {
    if (step_ == kExtremes) take_extremes(findings);
    if (step_ == kSums) take_sums(findings);
    if (step_ == kPowers) take_powers(findings);
    ++step_;
  }

  StatisticsResult result() const override;

 private:
  // The numbers of a question.
  struct Asked {
    Asked(const Question& question, std::size_t features)
        : in(question), p(features), numbers(in.rest) {}
    std::size_t groups() const { return in.count + 1; }
    const double* reaches() const { return numbers + groups() * p; }
    const double* complete_means() const { return reaches() + groups() * p; }

    AskedGroups in;
    std::size_t p;
    const double* numbers;  // [groups, p] bounds or means, and then those below
  };

  std::size_t p() const { return features_.size(); }

  static double centred(double x, double mean, double reach) {
    return std::ldexp(x - mean, -tally_exponent(reach));
  }

  void count(const Asked& asked, int64_t step, std::size_t group, const std::vector<double>& x,
             SampleFindings& findings) const {
    for (std::size_t j = 0; j < p(); ++j) {
      const std::size_t cell = group * p() + j;
      if (step == kExtremes) ++findings.counts[2 * cell + (std::isnan(x[j]) ? 1 : 0)];
      if (std::isnan(x[j])) continue;
      if (step == kExtremes) {
        findings.largest[2 * cell] = std::max(findings.largest[2 * cell], x[j]);
        findings.largest[2 * cell + 1] = std::max(findings.largest[2 * cell + 1], -x[j]);
      }
      if (step == kSums) findings.sums.add(cell, x[j]);
      if (step != kPowers) continue;
      const double d = centred(x[j], asked.numbers[cell], asked.reaches()[cell]);
      findings.sums.add(3 * cell, d * d);
      findings.sums.add(3 * cell + 1, d * d * d);
      findings.sums.add(3 * cell + 2, d * d * (d * d));
    }
  }

  // Samples without a missing value, for covariances.
  void count_complete(const Asked& asked, int64_t step, std::vector<double>& x,
                      SampleFindings& findings) const {
    const std::size_t cells = asked.groups() * p();
    if (step == kExtremes) ++findings.counts.back();
    for (std::size_t j = 0; step == kSums && j < p(); ++j) findings.sums.add(cells + j, x[j]);
    if (step != kPowers) return;
    const double* means = asked.complete_means();
    for (std::size_t j = 0; j < p(); ++j) x[j] = centred(x[j], means[j], means[p() + j]);
    findings.sums.add_products(3 * cells, 1, x);
  }

  void take_extremes(const SampleFindings& findings) {
    const std::size_t cells = (values_.size() + 1) * p();
    for (std::size_t cell = 0; cell < cells; ++cell) {
      ColumnMoments& m = moments_.emplace_back();
      m.n = findings.counts[2 * cell];
      m.missing = findings.counts[2 * cell + 1];
      if (m.n == 0) continue;
      m.max = findings.largest[2 * cell];
      m.min = -findings.largest[2 * cell + 1];
    }
    complete_ = findings.counts.back();
  }

  void take_sums(SampleFindings& findings) {
    const std::vector<double> sums = findings.sums.values();
    for (std::size_t cell = 0; cell < moments_.size(); ++cell) {
      moments_[cell].mean = sums[cell] / static_cast<double>(moments_[cell].n);
    }
    for (std::size_t j = 0; j < p(); ++j) {
      complete_means_.push_back(
          complete_ == 0 ? 0 : sums[moments_.size() + j] / static_cast<double>(complete_));
    }
  }

  void take_powers(SampleFindings& findings) {
    const std::vector<double> sums = findings.sums.values();
    for (std::size_t cell = 0; cell < moments_.size(); ++cell) {
      ColumnMoments& m = moments_[cell];
      const int exponent = tally_exponent(m.reach());
      m.squares = std::ldexp(sums[3 * cell], 2 * exponent);
      m.cubes = std::ldexp(sums[3 * cell + 1], 3 * exponent);
      m.fourths = std::ldexp(sums[3 * cell + 2], 4 * exponent);
    }
    for (std::size_t j = 0; j < p(); ++j) {
      for (std::size_t k = 0; k <= j; ++k) {
        const int exponent = tally_exponent(complete_reach(j)) + tally_exponent(complete_reach(k));
        products_.push_back(std::ldexp(sums[3 * moments_.size() + packed_place(j, k)], exponent));
      }
    }
  }

  double complete_reach(std::size_t j) const {
    if (complete_ == 0) return 0;
    return std::max(moments_[j].max - complete_means_[j], complete_means_[j] - moments_[j].min);
  }

  const ColumnMoments& of(std::size_t group, std::size_t j) const {
    return moments_[group * p() + j];
  }
  // Too few samples to be told of.
  bool is_hidden(const ColumnMoments& m) const { return m.n < options_.least_count; }

  ResultTable moments_table() const;
  ResultTable product_table(const std::string& name, bool scaled) const;
  std::optional<ResultTable> tests_table() const;

  int64_t step_;
  std::vector<ColumnMoments> moments_;  // [1 + groups, p]
  int64_t complete_ = 0;                // samples without a missing value
  std::vector<double> complete_means_;  // [p] of those
  std::vector<double> products_;        // packed: sums of centred products of those
};

ResultTable Moments::moments_table() const {
  ResultTable table = grouped_table(
      "moments", {"column", "n", "missing", "mean", "sd", "min", "max", "skewness", "kurtosis"});
  for (std::size_t group = 0; group <= values_.size(); ++group) {
    for (std::size_t j = 0; j < p(); ++j) {
      const ColumnMoments& m = of(group, j);
      std::vector<Cell>& row = add_row(table, group);
      row.emplace_back(features_[j].name);
      const bool hidden = is_hidden(m);
      for (const int64_t count : {m.n, m.missing}) {
        if (hidden) {
          row.emplace_back(kNoNumber);
        } else {
          row.emplace_back(count);
        }
      }
      for (const double number :
           {m.mean, m.deviation(), m.min, m.max, m.skewness(), m.kurtosis()}) {
        row.emplace_back(hidden ? kNoNumber : number);
      }
    }
  }
  return table;
}

ResultTable Moments::product_table(const std::string& name, bool scaled) const {
  ResultTable table{.name = name, .columns = {"column"}, .shown = false};
  for (const auto& feature : features_) table.columns.push_back(feature.name);
  const double degrees = static_cast<double>(complete_ - 1);
  for (std::size_t j = 0; j < p(); ++j) {
    std::vector<Cell>& row = table.rows.emplace_back();
    row.emplace_back(features_[j].name);
    for (std::size_t k = 0; k < p(); ++k) {
      const double own = products_[packed_place(j, k)];
      const double root =
          std::sqrt(products_[packed_place(j, j)]) * std::sqrt(products_[packed_place(k, k)]);
      const double value = !scaled              ? (complete_ > 1 ? own / degrees : kNoNumber)
                           : j == k && root > 0 ? 1
                                                : own / root;
      row.emplace_back(complete_ < options_.least_count ? kNoNumber : value);
    }
  }
  return table;
}

// Welch's test of two groups, or one-way analysis of variance of several, and the standardized
// difference of two means, of each column.
std::optional<ResultTable> Moments::tests_table() const {
  const std::size_t groups = values_.size();
  if (groups < 2) return std::nullopt;
  ResultTable table{
      "moments-tests",
      {"column", "smd", "t", "degrees", "F", "degrees_between", "degrees_within", "p"}};
  for (std::size_t j = 0; j < p(); ++j) {
    double between = 0, within = 0, n = 0, hidden = 0;
    for (std::size_t g = 1; g <= groups; ++g) {
      const ColumnMoments& m = of(g, j);
      if (m.n == 0) continue;
      hidden += is_hidden(m) ? 1 : 0;
      const double n_ = static_cast<double>(m.n), off = m.mean - of(0, j).mean;
      n += n_;
      between += n_ * off * off;
      within += m.squares;
    }
    double smd = kNoNumber, t = kNoNumber, degrees = kNoNumber, f = kNoNumber, p_value = kNoNumber;
    const double above = static_cast<double>(groups - 1), below = n - static_cast<double>(groups);
    if (groups == 2 && hidden == 0) {
      const ColumnMoments &a = of(1, j), &b = of(2, j);
      const double va = a.variance() / static_cast<double>(a.n);
      const double vb = b.variance() / static_cast<double>(b.n);
      smd = (a.mean - b.mean) / std::sqrt((a.variance() + b.variance()) / 2);
      t = (a.mean - b.mean) / std::sqrt(va + vb);
      degrees = (va + vb) * (va + vb) /
                (va * va / static_cast<double>(a.n - 1) + vb * vb / static_cast<double>(b.n - 1));
      p_value = student_p(t, degrees);
    } else if (hidden == 0) {
      f = between / above / (within / below);
      p_value = fisher_p(f, above, below);
    }
    table.rows.push_back({features_[j].name, smd, t, degrees, f, groups == 2 ? kNoNumber : above,
                          groups == 2 ? kNoNumber : below, p_value});
  }
  return table;
}

StatisticsResult Moments::result() const {
  StatisticsResult result;
  const auto suppressed =
      std::ranges::count_if(moments_, [&](const ColumnMoments& m) { return is_hidden(m); });
  result.facts = {{"complete", complete_}, {"suppressed", static_cast<int64_t>(suppressed)}};
  result.tables.push_back(moments_table());
  result.tables.push_back(product_table("moments-covariance", false));
  result.tables.push_back(product_table("moments-correlation", true));
  if (auto tests = tests_table()) result.tables.push_back(std::move(*tests));
  return result;
}

}  // namespace

std::unique_ptr<Analysis> make_moments(const AnalysisSetup& setup) {
  return std::make_unique<Moments>(setup);
}

}  // namespace hanse
