// Counts by two columns, and Pearson's test of their independence.
#include <cmath>

#include "features.hpp"
#include "hanse/base/index.hpp"

namespace hanse {

namespace {

class Crosstab final : public Analysis {
 public:
  enum Step : int64_t { kValues, kCounts, kEnd };

  explicit Crosstab(const AnalysisSetup& setup)
      : options_(setup.options),
        table_(setup.table),
        rows_(table_, options_.rows, "statistics.rows"),
        columns_(table_, options_.by, "statistics.by") {}

  std::optional<Question> question() override {
    if (step_ == kEnd) return std::nullopt;
    Question question{step_, {static_cast<double>(row_values_.size())}};
    auto& numbers = question.numbers;
    numbers.insert(numbers.end(), row_values_.begin(), row_values_.end());
    numbers.insert(numbers.end(), column_values_.begin(), column_values_.end());
    return question;
  }

  Findings open(const Question& question) const override {
    Findings findings;
    if (question.step == kValues) {
      findings.distinct.resize(2);
      return findings;
    }
    const auto rows = static_cast<std::size_t>(question.numbers[0]);
    findings.counts.resize(rows * (question.numbers.size() - 1 - rows) + 1);
    return findings;
  }

  void look(const Question& question, const Samples& samples, Findings& findings) const override {
    const double* rows = question.numbers.data() + 1;
    const double* columns = rows + static_cast<std::size_t>(question.numbers[0]);
    const double* end = question.numbers.data() + question.numbers.size();
    for (std::size_t i = 0; i < samples.size(); ++i) {
      const double row = rows_.value_of(samples, i), column = columns_.value_of(samples, i);
      const bool known = !std::isnan(row) && !std::isnan(column);
      if (question.step == kValues) {
        if (known) findings.distinct[0].add(row);
        if (known) findings.distinct[1].add(column);
        continue;
      }
      if (!known) {
        ++findings.counts.back();
        continue;
      }
      const int64_t r = place_among(rows, columns, row), c = place_among(columns, end, column);
      ++findings.counts[to_index(r * (end - columns) + c)];
    }
  }

  void hear(Findings findings) override {
    if (step_ == kValues) {
      row_values_ = findings.distinct[0].sorted();
      column_values_ = findings.distinct[1].sorted();
      rows_.check(row_values_);
      columns_.check(column_values_);
    } else {
      counts_ = findings.counts;
    }
    ++step_;
  }

  StatisticsResult result() const override {
    const std::size_t columns = column_values_.size();
    ResultTable table{"crosstab", {rows_.title()}};
    for (const double value : column_values_) table.columns.push_back(columns_.name_of(value));
    int64_t suppressed = 0;
    for (std::size_t r = 0; r < row_values_.size(); ++r) {
      std::vector<Cell>& row = table.rows.emplace_back();
      row.emplace_back(rows_.name_of(row_values_[r]));
      for (std::size_t c = 0; c < columns; ++c) {
        const int64_t count = counts_[r * columns + c];
        if (count > 0 && count < options_.least_count) {
          ++suppressed;
          row.emplace_back(std::nan(""));
        } else {
          row.emplace_back(count);
        }
      }
    }
    const double degrees =
        static_cast<double>(row_values_.size() - 1) * static_cast<double>(columns - 1);
    const double chi2 = suppressed > 0 ? std::nan("") : chi_squared();
    return {.facts = {{"missing", counts_.back()},
                      {"suppressed", suppressed},
                      {"chi2", chi2},
                      {"degrees", degrees},
                      {"p", chi_squared_p(chi2, degrees)}},
            .tables = {std::move(table)}};
  }

 private:
  // sum (o - e)^2 / e, e = row x column / n, without a correction for continuity.
  double chi_squared() const {
    const std::size_t rows = row_values_.size(), columns = column_values_.size();
    std::vector<double> by_row(rows), by_column(columns);
    double n = 0, sum = 0;
    for (std::size_t r = 0; r < rows; ++r) {
      for (std::size_t c = 0; c < columns; ++c) {
        const auto count = static_cast<double>(counts_[r * columns + c]);
        by_row[r] += count;
        by_column[c] += count;
        n += count;
      }
    }
    for (std::size_t r = 0; r < rows; ++r) {
      for (std::size_t c = 0; c < columns; ++c) {
        const double expected = by_row[r] * by_column[c] / n;
        const double off = static_cast<double>(counts_[r * columns + c]) - expected;
        sum += off * off / expected;
      }
    }
    return sum;
  }

  StatisticsOptions options_;
  TableFacts table_;
  SampleGroups rows_, columns_;
  int64_t step_ = kValues;
  std::vector<double> row_values_, column_values_;
  std::vector<int64_t> counts_;  // [rows, columns], and the samples where one is missing
};

}  // namespace

std::unique_ptr<Analysis> make_crosstab(const AnalysisSetup& setup) {
  return std::make_unique<Crosstab>(setup);
}

}  // namespace hanse
