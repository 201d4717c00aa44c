// Numeric tables with a header line; data/README.md has the grammar.
#include <algorithm>
#include <cmath>
#include <span>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "csv_header.hpp"
#include "csv_names.hpp"
#include "csv_scanner.hpp"
#include "file_signature.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"
#include "hanse/base/log.hpp"
#include "hanse/data/dataset.hpp"
#include "input_file.hpp"
#include "rounded_numbers.hpp"

namespace hanse {

namespace {

// The shape of one sample: the row of its features, or the shape that they form together.
std::vector<int64_t> shape_of(const CsvColumns& columns, const DataOptions& options) {
  if (options.shape.empty()) return {columns.features()};
  double values = 1;
  for (const int64_t extent : options.shape) values *= static_cast<double>(extent);
  if (values == static_cast<double>(columns.features())) return options.shape;
  throw InvalidArgument(fmt::format("the shape {} has {} values, the table {} feature columns",
                                    options.shape, values, columns.features()),
                        "data.shape", "leave it empty for a row of numbers");
}

// Reads the rows below the header. Labels are numbered when all of them are known.
class CsvTable {
 public:
  CsvTable(CsvScanner& scanner, const CsvColumns& columns, const DataOptions& options)
      : scanner_(scanner),
        first_row_(scanner),
        columns_(columns),
        regression_(options.task == "regression"),
        several_(columns.labels.size() > 1),
        standardized_(options.standardize != Standardize::kNone),
        classes_(scanner_, false, place(columns.labels.front())),
        clients_(scanner_, true, columns.client ? place(*columns.client) : "") {
    for (std::size_t column = 0; column < columns.names.size(); ++column) {
      if (columns.is_feature(column)) features_.push_back(column);
    }
  }

  Dataset read() {
    while (scanner_.next()) read_row();
    if (dataset_.features.empty()) {
      throw InvalidArgument("there is no row below the header", scanner_.where(),
                            "a row is a sample");
    }
    if (several_) {
      name_several();
    } else if (!regression_) {
      check_header();
      number_classes(classes_, dataset_);
    }
    for (const CsvName& client : clients_.all()) dataset_.group_names.push_back(client.text);
    dataset_.storage = Storage::kFloat;
    if (standardized_) read_precise();
    say_what_is_odd();
    return std::move(dataset_);
  }

 private:
  void read_row() {
    check_fields();
    for (const std::size_t column : features_) {
      row_.push_back(read_float(column, rounded_features_));
    }
    const auto values = std::as_bytes(std::span<const float>(row_));
    dataset_.features.insert(dataset_.features.end(), values.begin(), values.end());
    row_.clear();
    if (regression_ || several_) {
      for (const std::size_t column : columns_.labels) read_target(column);
    } else {
      read_label(columns_.labels.front());
    }
    if (columns_.client) {
      dataset_.groups.push_back(clients_.number(cell(*columns_.client)).first);
    }
  }

  void check_fields() const {
    const auto& fields = scanner_.fields();
    if (fields.size() == columns_.names.size()) return;
    const std::size_t last = std::min(fields.size(), columns_.names.size() - 1);
    if (fields.size() == 1 && fields[0].text.empty()) {
      throw InvalidArgument("the line is blank", scanner_.where(), "remove it");
    }
    const bool more = fields.size() > columns_.names.size();
    throw InvalidArgument(
        fmt::format("the row has {} fields, the header {}", fields.size(), columns_.names.size()),
        where(last),
        more ? "quote fields that hold a comma; numbers have a decimal point, and no comma"
             : "is the row cut? fill it in or remove it");
  }

  float read_float(std::size_t column, RoundedNumbers& rounded_numbers) {
    const std::string& text = cell(column).text;
    const auto value = to_number(text);
    if (!value || std::isnan(*value)) {
      throw InvalidArgument(fmt::format("'{}' is not a number", text), where(column),
                            number_hint(text));
    }
    const auto rounded = static_cast<float>(*value);
    if (!std::isfinite(rounded)) {
      throw InvalidArgument(fmt::format("'{}' is not finite in float32", text), where(column),
                            "replace it or remove the row");
    }
    rounded_numbers.see(*value, static_cast<int64_t>(column));
    return rounded;
  }

  // Reads a number, or the mark of one of several classes.
  void read_target(std::size_t column) {
    const float value = read_float(column, rounded_targets_);
    if (!regression_ && value != 0 && value != 1) {
      throw InvalidArgument(
          fmt::format("one of several labels is 0 or 1, not '{}'", cell(column).text),
          where(column),
          "set data.task = regression for numbers, or name one column of data.label-column");
    }
    dataset_.targets.push_back(value);
  }

  void read_label(std::size_t column) {
    const CsvField& label = cell(column);
    const auto [number, is_new] = classes_.number(label);
    dataset_.labels.push_back(static_cast<int32_t>(number));
    if (!is_new || whole_number(label.text)) return;
    const auto fraction = to_number(label.text);
    if (!fraction || std::isnan(*fraction)) return;  // a name
    if (!std::isfinite(*fraction)) {
      throw InvalidArgument(fmt::format("label '{}' is not finite", label.text), where(column),
                            "replace it or remove the row");
    }
    throw InvalidArgument(fmt::format("label '{}' is not an integer", label.text), where(column),
                          "set data.task = regression, or label classes by integers or text");
  }

  // Is the label column's name one of its labels?
  void check_header() const {
    if (!columns_.perhaps_a_sample) return;
    const std::string& name = columns_.names[columns_.labels.front()];
    const bool found = std::ranges::any_of(
        classes_.all(), [&](const CsvName& label) { return label.text == name; });
    if (found) refuse_sample(first_row_.where(), columns_.names);
  }

  void name_several() {
    dataset_.label_values = std::ssize(columns_.labels);
    dataset_.multi_label = !regression_;
    for (const std::size_t column : columns_.labels) {
      if (!regression_) dataset_.class_names.push_back(columns_.names[column]);
    }
    dataset_.class_names = without_numbers(std::move(dataset_.class_names));
  }

  // Reads the rows again for the columns that float32 cannot hold.
  void read_precise() {
    for (std::size_t i = 0; i < features_.size(); ++i) {
      if (!rounded_features_.is_rounded(static_cast<int64_t>(features_[i]))) continue;
      dataset_.precise.push_back({.feature = static_cast<int64_t>(i), .values = {}});
    }
    if (dataset_.precise.empty()) return;
    while (first_row_.next()) {
      for (PreciseFeature& feature : dataset_.precise) {
        const std::size_t column = features_[to_index(feature.feature)];
        feature.values.push_back(*to_number(first_row_.fields()[column].text));
      }
    }
  }

  void say_what_is_odd() const {
    for (const std::string& remark : columns_.remarks) {
      notice(fmt::format("{}: {}", scanner_.file(), remark));
    }
    const auto name = [&](int64_t column) { return place(to_index(column)); };
    const auto say = [&](const RoundedNumbers& numbers, const char* hint) {
      const std::string text = numbers.text(name);
      if (!text.empty()) warning(fmt::format("{}, {}{}", scanner_.file(), text, hint));
    };
    if (!standardized_) say(rounded_features_, "; data.standardize centres them before that");
    say(rounded_targets_, "");
    classes_.say_what_is_odd();
    clients_.say_what_is_odd();
  }

  const CsvField& cell(std::size_t column) const {
    const CsvField& field = scanner_.fields()[column];
    if (field.text.empty()) {
      throw InvalidArgument("the cell is empty", where(column), "fill it in or remove the row");
    }
    return field;
  }

  std::string place(std::size_t column) const {
    return fmt::format("column '{}'", columns_.names[column]);
  }

  std::string where(std::size_t column) const {
    return fmt::format("{}, {}", scanner_.where(), place(column));
  }

  CsvScanner& scanner_;
  CsvScanner first_row_;  // the header is its last record
  const CsvColumns& columns_;
  bool regression_;
  bool several_;  // label columns
  bool standardized_;
  std::vector<std::size_t> features_;  // columns
  Dataset dataset_;
  std::vector<float> row_;
  RoundedNumbers rounded_features_, rounded_targets_;
  CsvNames classes_, clients_;  // labels as they are written
};

}  // namespace

Dataset read_csv(const std::string& file, const DataOptions& options) {
  if (options.task != "classification" && options.task != "regression") {
    throw InvalidArgument(fmt::format("unknown data.task '{}'", options.task), "data.task",
                          "known: classification, regression");
  }
  const InputText text(file);
  require_text(text.view(), file, "CSV");
  std::string_view content = text.view();
  const CsvDialect dialect = find_dialect(content, options.label_column);
  CsvScanner scanner(file, content, dialect);
  const CsvColumns columns = read_header(scanner, options);
  std::vector<int64_t> shape = shape_of(columns, options);
  Dataset dataset = CsvTable(scanner, columns, options).read();
  dataset.shape = std::move(shape);
  return dataset;
}

}  // namespace hanse
