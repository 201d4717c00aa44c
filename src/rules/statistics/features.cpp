#include "features.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fnmatch.h>

#include "hanse/base/error.hpp"
#include "hanse/base/options.hpp"

namespace hanse {

namespace {

constexpr std::size_t kMostGroups = 1000;
constexpr std::size_t kMostNamed = 30;

std::string all_names(const TableFacts& table) {
  std::vector<std::string> names;
  for (const TableColumn& column : table.columns) names.push_back(column.name);
  const bool cut = names.size() > kMostNamed;
  if (cut) names.resize(kMostNamed);
  return fmt::format("{}{}", fmt::join(names, ", "), cut ? ", ..." : "");
}

// [columns] is it chosen?
std::vector<char> chosen_columns(const TableFacts& table, const std::string& patterns) {
  std::vector<char> chosen(table.width());
  const std::size_t features = table.width() - static_cast<std::size_t>(table.labels);
  for (const std::string& pattern : split_list(patterns)) {
    bool matches = false;
    for (std::size_t c = 0; c < table.width(); ++c) {
      const bool named = table.columns[c].name == pattern;
      if (c >= features && !named) continue;
      if (!named && fnmatch(pattern.c_str(), table.columns[c].name.c_str(), 0) != 0) continue;
      chosen[c] = 1;
      matches = true;
    }
    if (matches) continue;
    throw InvalidArgument(fmt::format("no column is called '{}'", pattern), "statistics.columns",
                          "the columns are " + all_names(table));
  }
  return chosen;
}

}  // namespace

std::size_t TableFacts::find(std::string_view name, const std::string& key) const {
  for (std::size_t c = 0; c < width(); ++c) {
    if (columns[c].name == name) return c;
  }
  if (name == "label" && labels == 1) return width() - 1;
  throw InvalidArgument(fmt::format("no column is called '{}'", name), key,
                        "the columns are " + all_names(*this));
}

void DistinctValues::add(double value) {
  const auto end = values_.begin() + static_cast<std::ptrdiff_t>(compacted_);
  if (std::binary_search(values_.begin(), end, value)) return;
  values_.push_back(value);
  if (values_.size() > 2 * compacted_ + 1024) compact();
}

const std::vector<double>& DistinctValues::sorted() {
  if (values_.size() > compacted_) compact();
  return values_;
}

void DistinctValues::compact() {
  std::ranges::sort(values_);
  values_.erase(std::unique(values_.begin(), values_.end()), values_.end());
  compacted_ = values_.size();
}

std::vector<StatisticsFeature> chosen_features(const AnalysisSetup& setup, CategoryCoding coding,
                                               const std::vector<std::size_t>& apart) {
  const TableFacts& table = setup.table;
  const std::vector<char> chosen = chosen_columns(table, setup.options.columns);
  std::vector<StatisticsFeature> features;
  for (std::size_t c = 0; c < table.width(); ++c) {
    const TableColumn& column = table.columns[c];
    if (!chosen[c] || std::ranges::find(apart, c) != apart.end()) continue;
    if (!column.is_category()) {
      features.push_back({column.name, c});
      continue;
    }
    if (coding == CategoryCoding::kNone) continue;
    const int64_t first = coding == CategoryCoding::kAgainstFirst ? 1 : 0;
    for (int64_t level = first; level < std::ssize(column.levels); ++level) {
      features.push_back(
          {fmt::format("{}={}", column.name, column.levels[static_cast<std::size_t>(level)]), c,
           level});
    }
  }
  if (!features.empty()) return features;
  throw InvalidArgument("no column of numbers is left", "statistics.columns",
                        "the columns are " + all_names(table));
}

AnalysisSetup of_all_samples(AnalysisSetup setup) {
  setup.options.by.clear();
  setup.options.least_count = 0;
  return setup;
}

bool known_features(const std::vector<StatisticsFeature>& features, const float* row, double* x) {
  bool known = true;
  for (std::size_t j = 0; j < features.size(); ++j) {
    x[j] = features[j].of(row);
    known = known && !std::isnan(x[j]);
  }
  return known;
}

SampleGroups::SampleGroups(const TableFacts& table, const std::string& name, const std::string& key)
    : table_(&table), key_(key), title_(name) {
  if (name.empty()) return;
  const bool is_column =
      std::ranges::find(table.columns, name, &TableColumn::name) != table.columns.end();
  kind_ = name == "client" && !is_column ? Kind::kClient : Kind::kColumn;
  if (kind_ == Kind::kColumn) column_ = table.find(name, key);
}

std::vector<std::size_t> SampleGroups::columns() const {
  return kind_ == Kind::kColumn ? std::vector{column_} : std::vector<std::size_t>();
}

double SampleGroups::value_of(const Samples& samples, std::size_t i) const {
  if (kind_ == Kind::kNone) return kNoNumber;
  return kind_ == Kind::kClient ? static_cast<double>(samples.client)
                                : static_cast<double>(samples.row(i)[column_]);
}

std::string SampleGroups::name_of(double value) const {
  if (kind_ == Kind::kColumn) return value_text(table_->columns[column_], value);
  const auto client = static_cast<std::size_t>(value);
  return client < table_->clients.size() ? table_->clients[client] : fmt::format("{}", client);
}

void SampleGroups::check(const std::vector<double>& values) const {
  if (values.empty()) throw InvalidArgument(fmt::format("no sample has a {}", title_), key_);
  if (values.size() <= kMostGroups) return;
  throw InvalidArgument(fmt::format("'{}' has {} values, {} are the most for groups", title_,
                                    values.size(), kMostGroups),
                        key_, "name a column of categories");
}

Question AskedGroups::question(int64_t step, const std::vector<double>& values) {
  Question question{step, {static_cast<double>(values.size())}};
  question.numbers.insert(question.numbers.end(), values.begin(), values.end());
  return question;
}

int64_t place_among(const double* begin, const double* end, double value) {
  const double* found = std::lower_bound(begin, end, value);
  return found != end && *found == value ? found - begin : -1;
}

std::string value_text(const TableColumn& column, double value) {
  const auto level = static_cast<std::size_t>(value < 0 ? 0 : value);
  if (column.is_category() && level < column.levels.size()) return column.levels[level];
  return fmt::format("{}", static_cast<float>(value));
}

}  // namespace hanse
