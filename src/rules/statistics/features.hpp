// What statistics read of a table: its columns as numbers, and the groups of its samples.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hanse/rules/statistics/analysis.hpp"

namespace hanse {

inline constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();

// A number of a sample: a column's value, or for a level of a category 1 where it has that level
// and else 0. NaN: missing.
struct StatisticsFeature {
  std::string name;  // "age", "chest pain=typical"
  std::size_t column = 0;
  int64_t level = -1;  // -1: the column's value

  double of(const float* row) const {
    const auto value = static_cast<double>(row[column]);
    if (level < 0 || std::isnan(value)) return value;
    return value == static_cast<double>(level) ? 1 : 0;
  }
};

// How categories count: their columns are left out; a number for each level; or for each but the
// first one, to which the others are compared.
enum class CategoryCoding { kNone, kEach, kAgainstFirst };

// The features of statistics.columns, in the table's order; those of the label only where they are
// named. Columns `apart` are left out. Throws InvalidArgument: a pattern that matches none, or
// nothing is left.
std::vector<StatisticsFeature> chosen_features(const AnalysisSetup& setup, CategoryCoding coding,
                                               const std::vector<std::size_t>& apart = {});

// The same analysis without groups, which hides nothing: one that others are made of.
AnalysisSetup of_all_samples(AnalysisSetup setup);

// Writes the features of a sample to `x`; false: one is missing.
bool known_features(const std::vector<StatisticsFeature>& features, const float* row, double* x);

// The groups of statistics.by, or of another key: samples of one value of a column, or of one
// client. The values are found by a look of their own.
class SampleGroups {
 public:
  // `name`: of the column, "client", or empty: there is no group.
  SampleGroups(const TableFacts& table, const std::string& name, const std::string& key);

  bool are_asked() const { return kind_ != Kind::kNone; }
  bool are_clients() const { return kind_ == Kind::kClient; }
  // The column, where there is one.
  std::vector<std::size_t> columns() const;
  // NaN: it is missing, or there are no groups.
  double value_of(const Samples& samples, std::size_t i) const;
  std::string name_of(double value) const;
  const std::string& title() const { return title_; }
  // Throws InvalidArgument beyond 1,000 groups, or without any.
  void check(const std::vector<double>& values) const;

 private:
  enum class Kind { kNone, kClient, kColumn };

  const TableFacts* table_;
  Kind kind_ = Kind::kNone;
  std::size_t column_ = 0;
  std::string key_, title_;
};

// The place of a value among sorted ones, or -1.
int64_t place_among(const double* begin, const double* end, double value);

// The groups in a question, whose first numbers are how many there are, and their sorted values.
struct AskedGroups {
  explicit AskedGroups(const Question& question)
      : count(static_cast<std::size_t>(question.numbers.at(0))),
        values(question.numbers.data() + 1),
        rest(values + count) {}
  // A question with these groups, to which more numbers may be added.
  static Question question(int64_t step, const std::vector<double>& values);

  // The group of a sample with this value: 0 is that of all samples. Nothing: it has none.
  std::optional<std::size_t> place(double value) const {
    const int64_t own = place_among(values, rest, value);
    return own < 0 ? std::nullopt : std::optional(static_cast<std::size_t>(own) + 1);
  }

  std::size_t count;
  const double *values, *rest;
};

// "3.5", or the name of a category's level.
std::string value_text(const TableColumn& column, double value);

// The centre of a symmetric interval of this level in deviations: 1.96 of 0.95.
double normal_quantile(double level);
// P(|Z| > |z|), also of Student's t with so many degrees of freedom, and P(X > x) of chi-squared
// and of F. NaN of NaN.
double normal_p(double z);
double student_p(double t, double degrees);
double student_quantile(double level, double degrees);
double chi_squared_p(double x, double degrees);
double fisher_p(double x, double above, double below);

}  // namespace hanse
