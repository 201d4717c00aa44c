#include "csv/new_rows.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "client_source.hpp"
#include "csv/csv_faults.hpp"
#include "csv/csv_feature.hpp"
#include "csv/csv_header.hpp"
#include "csv/csv_numbers.hpp"
#include "csv/csv_scanner.hpp"
#include "file_signature.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"
#include "hanse/base/options.hpp"
#include "input_file.hpp"

namespace hanse {

namespace {

constexpr const char* kId = "id";

// A column of the table, which becomes the values [first, first + count) of a sample.
struct ReadColumn {
  std::string name;
  std::size_t first = 0, count = 0;
  std::map<std::string, std::ptrdiff_t, std::less<>> levels;  // place among its values; -1: in none
  bool is_category = false;
  std::size_t at = 0;  // its field
};

// The columns that the values of a record come from, in their order.
std::vector<ReadColumn> columns_of(const FeatureRecord& record) {
  std::vector<ReadColumn> columns;
  for (std::size_t i = 0; i < record.values.size(); ++i) {
    const RecordedValue& value = record.values[i];
    if (columns.empty() || columns.back().name != value.column) {
      columns.push_back({.name = value.column, .first = i});
    }
    ReadColumn& column = columns.back();
    if (value.what == ValueOf::kLevel) {
      column.is_category = true;
      column.levels.emplace(value.level, static_cast<std::ptrdiff_t>(column.count));
    }
    ++column.count;
  }
  for (const auto& [name, level] : record.foreign) {
    const auto found = std::ranges::find(columns, name, &ReadColumn::name);
    if (found != columns.end()) found->levels.emplace(level, -1);
  }
  return columns;
}

class NewRows final : public NewSamples {
 public:
  NewRows(const std::string& path, const FeatureRecord& record, const Preparation& own,
          UnknownLevels unknown)
      : path_(path),
        record_(record),
        own_(own),
        unknown_(unknown),
        columns_(columns_of(record)),
        text_(path_),
        rows_(path_, {}, {}) {
    require_text(text_.view(), path_, "CSV");
    std::string_view content = text_.view();
    const CsvDialect dialect = find_dialect(content, columns_.front().name);
    rows_ = CsvScanner(path_, content, dialect);
    read_header();
    check_rows();
  }

  const std::vector<std::string>& names() const override { return names_; }

  bool next(std::span<float> values, std::vector<std::string>& texts) override {
    if (!rows_.next()) return false;
    read_row(values);
    texts.clear();
    texts.push_back(id_ ? field(*id_).text : std::to_string(row_));
    for (const std::size_t column : passed_) texts.push_back(field(column).text);
    ++row_;
    return true;
  }

 private:
  void read_header() {
    header_ = read_column_names(rows_);
    check_column_names(rows_, header_);
    for (ReadColumn& column : columns_) {
      const auto found = std::ranges::find(header_, column.name);
      if (found == header_.end()) refuse_missing(column.name);
      column.at = to_index(found - header_.begin());
    }
    names_ = {kId};
    for (std::size_t i = 0; i < header_.size(); ++i) {
      const auto is_read = [&](const ReadColumn& column) { return column.at == i; };
      if (std::ranges::any_of(columns_, is_read)) continue;
      if (header_[i] == kId) {
        id_ = i;
      } else {
        passed_.push_back(i);
        names_.push_back(header_[i]);
      }
    }
  }

  [[noreturn]] void refuse_missing(const std::string& name) const {
    std::vector<std::string> missing;
    for (const ReadColumn& column : columns_) {
      if (std::ranges::count(header_, column.name) == 0) missing.push_back(column.name);
    }
    const std::string what =
        missing.size() == 1
            ? fmt::format("there is no column '{}', which the model reads", name)
            : fmt::format("there are no columns {}, which the model reads", shortened(missing));
    throw InvalidArgument(what, rows_.where(),
                          fmt::format("did you mean '{}'?", nearest(name, header_)));
  }

  // Looks at every row first, so that no output is begun for a table with a fault.
  void check_rows() {
    const CsvScanner first = rows_;
    CsvFaults faults;
    std::vector<float> values(record_.values.size());
    int64_t rows = 0;
    for (bool more = true; more; ++rows) {
      more = false;
      if (!faults.attempt([&] { more = rows_.next(); })) break;
      if (more) faults.attempt([&] { read_row(values); });
    }
    faults.refuse();
    if (rows <= 1) {
      throw InvalidArgument("there is no row below the header", rows_.where(), "a row is a sample");
    }
    rows_ = first;
  }

  void read_row(std::span<float> values) {
    check_fields(rows_, header_);
    for (const ReadColumn& column : columns_) read_cell(column, values);
  }

  const CsvField& field(std::size_t column) const { return rows_.fields()[column]; }

  void read_cell(const ReadColumn& column, std::span<float> values) {
    cell_.assign(column.count, 0.0);
    const bool is_known = column.is_category ? read_level(column) : read_number(column);
    for (std::size_t k = 0; k < column.count; ++k) {
      const std::size_t i = column.first + k;
      values[i] = prepared(column, is_known ? cell_[k] : fill(column, i), i);
    }
  }

  // Is a number there? It is the cell's first value then.
  bool read_number(const ReadColumn& column) {
    const std::string& text = field(column.at).text;
    const auto number = number_or_truth(text);
    if (number && !std::isnan(*number)) {
      if (!std::isfinite(static_cast<float>(*number))) {
        throw InvalidArgument(fmt::format("'{}' is not finite in float32", text), where(column),
                              "replace it or remove the row");
      }
      cell_.front() = *number;
      return true;
    }
    if (text.empty() || missing_mark(text) != Missing::kNo) return false;
    throw InvalidArgument(fmt::format("'{}' is not a number", text), where(column),
                          number_hint(text));
  }

  // Is a level there? Its value is 1 then.
  bool read_level(const ReadColumn& column) {
    const CsvField& cell = field(column.at);
    const Missing mark = cell.text.empty() ? Missing::kYes : missing_mark(cell.text);
    if (mark == Missing::kYes && (!cell.quoted || cell.text.empty())) return false;
    const auto found = column.levels.find(whole_number(cell.text).value_or(cell.text));
    if (found != column.levels.end()) {
      if (found->second >= 0) cell_[to_index(found->second)] = 1;
      return true;
    }
    if (unknown_ == UnknownLevels::kMissing) return false;
    std::vector<std::string> known;
    for (const auto& [level, place] : column.levels) known.push_back(level);
    throw InvalidArgument(fmt::format("the run does not know the category '{}'", cell.text),
                          where(column),
                          suggestion(cell.text, known) + "; --unknown=missing takes it as missing");
  }

  double fill(const ReadColumn& column, std::size_t i) const {
    const double value = own_.fills.empty() ? std::nan("") : own_.fills[i];
    if (!std::isnan(value)) return value;
    const std::string& text = field(column.at).text;
    throw InvalidArgument(text.empty() ? "the cell is empty, and the run has filled none"
                                       : fmt::format("the value is missing: '{}'", text),
                          where(column),
                          "fill it in or remove the row; a run with data.missing = mean fills it");
  }

  float prepared(const ReadColumn& column, double value, std::size_t i) const {
    if (!record_.values[i].is_precise) value = static_cast<double>(static_cast<float>(value));
    if (own_.scales.empty()) return static_cast<float>(value);
    const auto scaled = static_cast<float>(own_.scales[i].of(value));
    if (std::isfinite(scaled)) return scaled;
    throw InvalidArgument(
        fmt::format("'{}' is too many deviations from the mean", field(column.at).text),
        where(column), "is it an outlier? correct it or remove the row");
  }

  std::string where(const ReadColumn& column) const {
    return fmt::format("{}, column '{}'", rows_.where(), column.name);
  }

  const std::string path_;
  const FeatureRecord& record_;
  const Preparation& own_;
  UnknownLevels unknown_;
  std::vector<ReadColumn> columns_;
  InputText text_;
  CsvScanner rows_;
  std::vector<std::string> header_, names_;
  std::optional<std::size_t> id_;    // its field
  std::vector<std::size_t> passed_;  // fields
  std::vector<double> cell_;         // the values of one cell
  int64_t row_ = 0;
};

}  // namespace

std::unique_ptr<NewSamples> open_new_rows(const std::string& path, const FeatureRecord& record,
                                          const Preparation& own, UnknownLevels unknown) {
  return std::make_unique<NewRows>(path, record, own, unknown);
}

}  // namespace hanse
