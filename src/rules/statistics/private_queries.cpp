// Statistics that are private for each sample: one look each, sums of whole numbers alone, of which
// a sample moves no more than squared_reach() tells. Columns have public bounds, to which values
// are clipped. Noise is the protocol's.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "features.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"

namespace hanse {

namespace {

constexpr double kHalfRange = 0x1p20;  // steps of half a column's range
constexpr int64_t kOne = 1024;         // a sample in a cell: so that rounding the noise's variance
                                       // up to a whole number costs nothing

// Columns of numbers and their public bounds.
class BoundedColumns {
 public:
  explicit BoundedColumns(const AnalysisSetup& setup)
      : features(chosen_features(setup, CategoryCoding::kNone)) {
    if (!setup.options.by.empty()) {
      throw InvalidArgument("the groups that there are would tell of samples", "statistics.by",
                            "leave it empty, or use privacy.kind = none");
    }
    take("statistics.low", setup.options.low, features.size(), low);
    take("statistics.high", setup.options.high, features.size(), high);
    check();
  }

  // Bounds of so many columns.
  static void take(const std::string& key, const std::vector<double>& given, std::size_t count,
                   std::vector<double>& bounds) {
    if (given.size() != count) {
      throw InvalidArgument(fmt::format("{} bounds for {} columns", given.size(), count), key,
                            "private statistics need what is known of each column beforehand");
    }
    bounds = given;
  }
  void check() const {
    for (std::size_t j = 0; j < low.size(); ++j) {
      if (low[j] < high[j]) continue;
      throw InvalidArgument(fmt::format("{} is not below {}", low[j], high[j]),
                            "statistics.low, statistics.high");
    }
  }
  double clipped(std::size_t j, double x) const { return std::clamp(x, low[j], high[j]); }

  std::vector<StatisticsFeature> features;
  std::vector<double> low, high;
};

// One look whose answer is counts.
class PrivateQuery : public Analysis {
 public:
  explicit PrivateQuery(std::size_t counts) : size_(counts) {}

  std::optional<Question> question() override {
    return counts_.empty() ? std::optional(Question{}) : std::nullopt;
  }
  Findings open(const Question&) const override {
    Findings findings;
    findings.counts.resize(size_);
    return findings;
  }
  void hear(Findings findings) override { counts_ = std::move(findings.counts); }

 protected:
  double at(std::size_t i) const { return static_cast<double>(counts_[i]); }

  std::size_t size_;
  std::vector<int64_t> counts_;
};

// (G12): 1, x and x x' about the middle of the ranges, in steps of 2^-20 of their halves. Samples
// with a missing value are left out.
class PrivateMoments final : public PrivateQuery {
 public:
  explicit PrivateMoments(const AnalysisSetup& setup) : PrivateMoments(BoundedColumns(setup)) {}

  int64_t squared_reach() const override { return static_cast<int64_t>(size_) << 40; }

  void look(const Question&, const Samples& samples, Findings& findings) const override {
    std::vector<double> x(p());
    std::vector<int64_t> z(p());
    for (std::size_t i = 0; i < samples.size(); ++i) {
      if (!known_features(columns_.features, samples.row(i), x.data())) continue;
      findings.counts[0] += int64_t{1} << 20;
      for (std::size_t j = 0; j < p(); ++j) {
        z[j] = std::llrint((columns_.clipped(j, x[j]) - middle(j)) / half(j) * kHalfRange);
        findings.counts[1 + j] += z[j];
        for (std::size_t k = 0; k <= j; ++k) {
          findings.counts[1 + p() + packed_place(j, k)] += (z[j] * z[k]) >> 20;
        }
      }
    }
  }

  StatisticsResult result() const override {
    const double n = at(0) / kHalfRange;
    ResultTable table{"moments", {"column", "n", "mean", "sd", "low", "high"}};
    ResultTable covariances{.name = "moments-covariance", .columns = {"column"}, .shown = false};
    for (std::size_t j = 0; j < p(); ++j) {
      const std::string& name = columns_.features[j].name;
      covariances.columns.push_back(name);
      table.rows.push_back({name, n, middle(j) + half(j) * at(1 + j) / at(0),
                            std::sqrt(std::max(0.0, covariance(j, j))), columns_.low[j],
                            columns_.high[j]});
    }
    for (std::size_t j = 0; j < p(); ++j) {
      std::vector<Cell>& row = covariances.rows.emplace_back();
      row.emplace_back(columns_.features[j].name);
      for (std::size_t k = 0; k < p(); ++k) row.emplace_back(covariance(j, k));
    }
    return {.facts = {{"n", n}}, .tables = {std::move(table), std::move(covariances)}};
  }

 private:
  explicit PrivateMoments(BoundedColumns columns)
      : PrivateQuery(1 + columns.features.size() + packed_size(columns.features.size())),
        columns_(std::move(columns)) {}

  std::size_t p() const { return columns_.features.size(); }
  double middle(std::size_t j) const { return (columns_.low[j] + columns_.high[j]) / 2; }
  double half(std::size_t j) const { return (columns_.high[j] - columns_.low[j]) / 2; }
  double covariance(std::size_t j, std::size_t k) const {
    const double product = at(1 + p() + packed_place(j, k)) / at(0);
    const double n = at(0) / kHalfRange;
    return half(j) * half(k) * (product - at(1 + j) / at(0) * (at(1 + k) / at(0))) * n / (n - 1);
  }

  BoundedColumns columns_;
};

// Counts of bins of equal width between the bounds, and the quantiles that follow from them.
class PrivateHistogram final : public PrivateQuery {
 public:
  PrivateHistogram(const AnalysisSetup& setup, bool quantiles)
      : PrivateHistogram(BoundedColumns(setup), setup.options, quantiles) {}

  int64_t squared_reach() const override {
    return kOne * kOne * static_cast<int64_t>(columns_.features.size());
  }

  void look(const Question&, const Samples& samples, Findings& findings) const override {
    for (std::size_t i = 0; i < samples.size(); ++i) {
      for (std::size_t j = 0; j < columns_.features.size(); ++j) {
        const double x = columns_.features[j].of(samples.row(i));
        if (std::isnan(x)) continue;
        const double part = (columns_.clipped(j, x) - columns_.low[j]) /
                            (columns_.high[j] - columns_.low[j]) * static_cast<double>(bins());
        const std::size_t bin = std::min(static_cast<std::size_t>(part), bins() - 1);
        findings.counts[j * bins() + bin] += kOne;
      }
    }
  }

  StatisticsResult result() const override {
    return {.tables = {quantiles_ ? quantile_table() : count_table()}};
  }

 private:
  PrivateHistogram(BoundedColumns columns, const StatisticsOptions& options, bool quantiles)
      : PrivateQuery(columns.features.size() * to_index(options.bins)),
        options_(options),
        columns_(std::move(columns)),
        quantiles_(quantiles) {}

  std::size_t bins() const { return to_index(options_.bins); }
  double end(std::size_t j, double bin) const {
    return columns_.low[j] +
           (columns_.high[j] - columns_.low[j]) * (bin / static_cast<double>(bins()));
  }
  double count(std::size_t j, std::size_t bin) const {
    return at(j * bins() + bin) / static_cast<double>(kOne);
  }

  ResultTable count_table() const {
    ResultTable table{"histogram", {"column", "low", "high", "count"}};
    for (std::size_t j = 0; j < columns_.features.size(); ++j) {
      for (std::size_t bin = 0; bin < bins(); ++bin) {
        const auto begin = static_cast<double>(bin);
        table.rows.push_back(
            {columns_.features[j].name, end(j, begin), end(j, begin + 1), count(j, bin)});
      }
    }
    return table;
  }

  // Where the noised counts, none below 0, reach the share; linear within a bin.
  double quantile(std::size_t j, double share) const {
    double all = 0, before = 0;
    for (std::size_t bin = 0; bin < bins(); ++bin) all += std::max(0.0, count(j, bin));
    for (std::size_t bin = 0; bin < bins(); ++bin) {
      const double own = std::max(0.0, count(j, bin));
      if (own > 0 && before + own >= share * all) {
        const double within = std::clamp((share * all - before) / own, 0.0, 1.0);
        return end(j, static_cast<double>(bin) + within);
      }
      before += own;
    }
    return std::nan("");
  }

  ResultTable quantile_table() const {
    ResultTable table{"quantiles", {"column", "probability", "quantile"}};
    for (std::size_t j = 0; j < columns_.features.size(); ++j) {
      for (const double share : options_.probabilities) {
        table.rows.push_back({columns_.features[j].name, share, quantile(j, share)});
      }
    }
    return table;
  }

  StatisticsOptions options_;
  BoundedColumns columns_;
  bool quantiles_;
};

// Counts of two columns of whole numbers, all of which between the bounds are cells: of the rows
// first, then of the columns.
class PrivateCrosstab final : public PrivateQuery {
 public:
  explicit PrivateCrosstab(const AnalysisSetup& setup)
      : PrivateQuery(cells_of(setup.options)),
        low_(setup.options.low),
        high_(setup.options.high),
        rows_(setup.table.find(setup.options.rows, "statistics.rows")),
        columns_(setup.table.find(setup.options.by, "statistics.by")),
        names_{setup.options.rows, setup.options.by} {
    for (const std::size_t column : {rows_, columns_}) {
      if (!setup.table.columns[column].is_category()) continue;
      throw InvalidArgument(fmt::format("the categories of '{}' are not known beforehand",
                                        setup.table.columns[column].name),
                            "statistics.rows, statistics.by", "code them as whole numbers");
    }
  }

  int64_t squared_reach() const override { return kOne * kOne; }

  void look(const Question&, const Samples& samples, Findings& findings) const override {
    for (std::size_t i = 0; i < samples.size(); ++i) {
      const auto row = static_cast<double>(samples.row(i)[rows_]);
      const auto column = static_cast<double>(samples.row(i)[columns_]);
      if (std::isnan(row) || std::isnan(column)) continue;
      const std::size_t r = place(0, row), c = place(1, column);
      findings.counts[r * width() + c] += kOne;
    }
  }

  StatisticsResult result() const override {
    ResultTable table{"crosstab", {names_[0]}};
    for (std::size_t c = 0; c < width(); ++c) {
      table.columns.push_back(fmt::format("{}", low_[1] + static_cast<double>(c)));
    }
    for (std::size_t r = 0; r * width() < size_; ++r) {
      std::vector<Cell>& row = table.rows.emplace_back();
      row.emplace_back(fmt::format("{}", low_[0] + static_cast<double>(r)));
      for (std::size_t c = 0; c < width(); ++c) {
        row.emplace_back(at(r * width() + c) / static_cast<double>(kOne));
      }
    }
    return {.tables = {std::move(table)}};
  }

 private:
  static std::size_t cells_of(const StatisticsOptions& options) {
    std::vector<double> low, high;
    BoundedColumns::take("statistics.low", options.low, 2, low);
    BoundedColumns::take("statistics.high", options.high, 2, high);
    double cells = 1;
    for (std::size_t k = 0; k < 2; ++k) {
      if (low[k] != std::floor(low[k]) || high[k] != std::floor(high[k]) || low[k] > high[k]) {
        throw InvalidArgument(fmt::format("{} to {} is no range of whole numbers", low[k], high[k]),
                              "statistics.low, statistics.high");
      }
      cells *= high[k] - low[k] + 1;
    }
    if (cells > 1e6) throw InvalidArgument("more than a million cells", "statistics.high");
    return static_cast<std::size_t>(cells);
  }

  std::size_t width() const { return static_cast<std::size_t>(high_[1] - low_[1]) + 1; }
  std::size_t place(std::size_t k, double value) const {
    return static_cast<std::size_t>(std::clamp(std::nearbyint(value), low_[k], high_[k]) - low_[k]);
  }

  std::vector<double> low_, high_;
  std::size_t rows_, columns_;
  std::vector<std::string> names_;
};

}  // namespace

std::unique_ptr<Analysis> make_private_moments(const AnalysisSetup& setup) {
  return std::make_unique<PrivateMoments>(setup);
}

std::unique_ptr<Analysis> make_private_histogram(const AnalysisSetup& setup) {
  return std::make_unique<PrivateHistogram>(setup, false);
}

std::unique_ptr<Analysis> make_private_quantiles(const AnalysisSetup& setup) {
  return std::make_unique<PrivateHistogram>(setup, true);
}

std::unique_ptr<Analysis> make_private_crosstab(const AnalysisSetup& setup) {
  return std::make_unique<PrivateCrosstab>(setup);
}

}  // namespace hanse
