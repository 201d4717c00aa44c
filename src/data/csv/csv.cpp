// Numeric tables with a header line; data/README.md has the grammar.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "client_source.hpp"
#include "csv/csv_faults.hpp"
#include "csv/csv_feature.hpp"
#include "csv/csv_files.hpp"
#include "csv/csv_header.hpp"
#include "csv/csv_names.hpp"
#include "csv/csv_numbers.hpp"
#include "csv/csv_scanner.hpp"
#include "folder_files.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"
#include "hanse/base/log.hpp"
#include "hanse/data/dataset.hpp"
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

// Reads the rows below the headers. Labels are numbered when all of them are known.
class CsvTable {
 public:
  CsvTable(const CsvFiles& files, const DataOptions& options)
      : files_(files),
        scanner_(files.front()->rows),
        columns_(files.front()->columns),
        options_(options),
        regression_(options.task == "regression"),
        several_(columns_.labels.size() > 1),
        standardized_(options.standardize != Standardize::kNone),
        classes_(scanner_, NamesOf::kClasses, place(columns_.labels.front())),
        clients_(scanner_, NamesOf::kClients, columns_.client ? place(*columns_.client) : "") {
    for (std::size_t column = 0; column < columns_.names.size(); ++column) {
      if (!columns_.is_feature(column)) continue;
      features_.push_back(column);
      if (std::ranges::count(columns_.categories, column) == 0) continue;
      odd_.resize(features_.size());
      odd_.back() = make_odd(column, true);
    }
    odd_.resize(features_.size());
  }

  Dataset read() {
    for (const auto& file : files_) {
      scanner_ = file->rows;
      while (next_row()) read_row(*file);
    }
    if (samples_ == 0) {
      faults_.refuse();
      throw InvalidArgument("there is no row below the header", scanner_.where(),
                            "a row is a sample");
    }
    check_header();
    faults_.attempt([&] { number_labels(); });
    close_columns();
    faults_.refuse();
    for (const CsvName& client : clients_.all()) dataset_.group_names.push_back(client.text);
    dataset_.storage = Storage::kFloat;
    if (standardized_) read_precise();
    record();
    say_what_is_odd();
    if (options_.missing == MissingValues::kDrop) drop_rows();
    return std::move(dataset_);
  }

 private:
  // A fault of the quotes ends the file: what is behind it may be read in two ways.
  bool next_row() {
    bool is_there = false;
    faults_.attempt([&] { is_there = scanner_.next(); });
    return is_there;
  }

  void read_row(const CsvFile& file) {
    if (!faults_.attempt([&] { check_fields(scanner_, columns_.names); })) return;
    row_.resize(features_.size());
    for (std::size_t i = 0; i < features_.size(); ++i) {
      if ((!odd_[i] || !odd_[i]->is_category()) && read_number(i)) continue;
      row_[i] = std::numeric_limits<float>::quiet_NaN();
      faults_.attempt([&] { row_[i] = read_feature(i); });
    }
    const auto values = std::as_bytes(std::span<const float>(row_));
    dataset_.features.insert(dataset_.features.end(), values.begin(), values.end());
    for (const std::size_t column : columns_.labels) {
      faults_.attempt([&] { is_target() ? read_target(column) : read_label(column); });
    }
    if (columns_.client || !file.client.text.empty()) {
      faults_.attempt([&] {
        const CsvField& name = columns_.client ? cell(*columns_.client) : file.client;
        dataset_.groups.push_back(clients_.number(name).first);
      });
    }
    ++samples_;
  }

  bool is_target() const { return regression_ || several_; }

  // Most cells are plain numbers. Is this one, and did row_ take it?
  bool read_number(std::size_t i) {
    const std::size_t column = features_[i];
    const auto number = to_number(scanner_.fields()[column].text);
    if (!number || !std::isfinite(row_[i] = static_cast<float>(*number))) return false;
    rounded_features_.see(*number, static_cast<int64_t>(column));
    return true;
  }

  // The others are left to the column's CsvFeature.
  float read_feature(std::size_t i) {
    const std::size_t column = features_[i];
    if (!odd_[i]) odd_[i] = make_odd(column, false);
    const double value = odd_[i]->read(scanner_.fields()[column], samples_);
    for (const auto& [sample, level] : odd_[i]->patches()) {
      value_of(sample, i) = static_cast<float>(level);
    }
    if (odd_[i]->is_category() || std::isnan(value)) return static_cast<float>(value);
    return rounded(value, column, rounded_features_);
  }

  std::unique_ptr<CsvFeature> make_odd(std::size_t column, bool is_category) const {
    return std::make_unique<CsvFeature>(scanner_, options_, columns_.names[column], is_category);
  }

  float& value_of(int64_t sample, std::size_t i) {
    return reinterpret_cast<float*>(
        dataset_.features.data())[to_index(sample) * features_.size() + i];
  }

  float rounded(double value, std::size_t column, RoundedNumbers& rounded_numbers) {
    const auto rounded = static_cast<float>(value);
    if (!std::isfinite(rounded)) {
      throw InvalidArgument(
          fmt::format("'{}' is not finite in float32", scanner_.fields()[column].text),
          where(column), "replace it or remove the row");
    }
    rounded_numbers.see(value, static_cast<int64_t>(column));
    return rounded;
  }

  // Reads a number, or the mark of one of several classes.
  void read_target(std::size_t column) {
    const std::string& text = cell(column).text;
    const auto number = to_number(text);
    if (!number || std::isnan(*number)) {
      throw InvalidArgument(fmt::format("'{}' is not a number", text), where(column),
                            number_hint(text));
    }
    const float value = rounded(*number, column, rounded_targets_);
    if (!regression_ && value != 0 && value != 1) {
      throw InvalidArgument(
          fmt::format("one of several labels is 0 or 1, not '{}'", text), where(column),
          "set data.task = regression for numbers, or name one column of data.label-column");
    }
    dataset_.targets.push_back(value);
  }

  void read_label(std::size_t column) {
    const CsvField& label = cell(column);
    const auto [number, is_new] = classes_.number(label);
    dataset_.labels.push_back(static_cast<int32_t>(number));
    if (!is_new || options_.label_above || whole_number(label.text)) return;
    const auto fraction = to_number(label.text);
    if (!fraction || std::isnan(*fraction)) return;  // a name
    if (!std::isfinite(*fraction)) {
      throw InvalidArgument(fmt::format("label '{}' is not finite", label.text), where(column),
                            "replace it or remove the row");
    }
    throw InvalidArgument(fmt::format("label '{}' is not an integer", label.text), where(column),
                          "set data.task = regression, or label classes by integers or text");
  }

  void number_labels() {
    if (several_) return name_several();
    if (regression_) return;
    if (!options_.label_above) return number_classes(classes_, dataset_);
    std::vector<int32_t> is_above;
    for (const CsvName& label : classes_.all()) {
      const auto number = to_number(label.text);
      if (!number || std::isnan(*number)) {
        throw InvalidArgument(fmt::format("label '{}' is not a number", label.text),
                              classes_.where(label), "data.label-above compares numbers");
      }
      is_above.push_back(*number > *options_.label_above ? 1 : 0);
    }
    for (int32_t& label : dataset_.labels) label = is_above[to_index(label)];
    dataset_.classes = 2;
  }

  // Columns that are not of numbers alone stay open; the values of their categories become places
  // in sorted order.
  void close_columns() {
    for (std::size_t i = 0; i < features_.size(); ++i) {
      if (!odd_[i]) continue;
      std::vector<int64_t> places;
      std::optional<OpenColumn> open;
      faults_.attempt([&] { open = odd_[i]->finish(samples_, places); });
      if (!open) continue;
      open->feature = static_cast<int64_t>(i);
      for (int64_t sample = 0; sample < samples_ && !places.empty(); ++sample) {
        float& value = value_of(sample, i);
        if (!std::isnan(value)) value = static_cast<float>(places[static_cast<std::size_t>(value)]);
      }
      dataset_.open.push_back(std::move(*open));
    }
  }

  // Leaves out the rows that miss a value.
  void drop_rows() {
    std::vector<int64_t> kept;
    for (int64_t sample = 0; sample < samples_; ++sample) {
      const bool is_whole = std::ranges::none_of(dataset_.open, [&](const OpenColumn& column) {
        return std::isnan(value_of(sample, to_index(column.feature)));
      });
      if (is_whole) kept.push_back(sample);
    }
    std::erase_if(dataset_.open, [](const OpenColumn& column) { return column.levels.empty(); });
    for (OpenColumn& column : dataset_.open) column.missing = 0;
    if (std::ssize(kept) == samples_) return;
    if (kept.empty()) {
      throw InvalidArgument("every row misses a value", table(),
                            "data.missing = mean fills them; data.drop-columns leaves columns out");
    }
    dataset_.shape = {std::ssize(features_)};
    keep_samples(dataset_, kept);
    const auto& gone = dataset_.left_out;
    notice(fmt::format("{}: {} of {} rows miss a value, and are left out{}", table(),
                       samples_ - std::ssize(kept), samples_,
                       gone.empty() ? ""
                                    : fmt::format(", and with them {}: {}",
                                                  counted(std::ssize(gone), "client", "clients"),
                                                  shortened(gone))));
  }

  // Is the label column's name one of its labels?
  void check_header() const {
    if (!columns_.perhaps_a_sample) return;
    const std::string& name = columns_.names[columns_.labels.front()];
    const bool found = std::ranges::any_of(
        classes_.all(), [&](const CsvName& label) { return label.text == name; });
    if (found) refuse_sample(files_.front()->rows.where(), columns_.names);
  }

  void name_several() {
    dataset_.label_values = std::ssize(columns_.labels);
    dataset_.multi_label = !regression_;
    for (const std::size_t column : columns_.labels) {
      if (!regression_) dataset_.class_names.push_back(columns_.names[column]);
    }
    dataset_.class_names = without_numbers(std::move(dataset_.class_names));
  }

  // Records what the columns are for.
  void record() {
    FeatureRecord& record = dataset_.record;
    for (const std::size_t column : features_) {
      record.values.push_back({.column = columns_.names[column]});
    }
    for (const PreciseFeature& precise : dataset_.precise) {
      record.values[to_index(precise.feature)].is_precise = true;
    }
    for (const std::size_t column : columns_.labels) {
      record.label_columns.push_back(columns_.names[column]);
    }
    for (const std::size_t column : columns_.dropped) {
      record.dropped.push_back(columns_.names[column]);
    }
    if (columns_.client) record.client_column = columns_.names[*columns_.client];
    record.label_above = options_.label_above;
  }

  // Reads the rows again for the columns that float32 cannot hold.
  void read_precise() {
    for (std::size_t i = 0; i < features_.size(); ++i) {
      if (!rounded_features_.is_rounded(static_cast<int64_t>(features_[i]))) continue;
      dataset_.precise.push_back({.feature = static_cast<int64_t>(i), .values = {}});
    }
    if (dataset_.precise.empty()) return;
    for (const auto& file : files_) {
      CsvScanner rows = file->rows;
      while (rows.next()) {
        for (PreciseFeature& feature : dataset_.precise) {
          const auto number =
              number_or_truth(rows.fields()[features_[to_index(feature.feature)]].text);
          feature.values.push_back(number.value_or(std::numeric_limits<double>::quiet_NaN()));
        }
      }
    }
  }

  void say_what_is_odd() const {
    say_remarks(files_);
    const auto name = [&](int64_t column) { return place(to_index(column)); };
    const auto say = [&](const RoundedNumbers& numbers, const char* hint) {
      const std::string text = numbers.text(name);
      if (!text.empty()) warning(fmt::format("{}, {}{}", table(), text, hint));
    };
    if (const std::string text = rounded_features_.text(name); options_.as_is && !text.empty()) {
      throw InvalidArgument(text, table(), "subtract a constant from that column before");
    }
    if (!standardized_) say(rounded_features_, "; data.standardize centres them before that");
    say(rounded_targets_, "");
    classes_.say_what_is_odd();
    clients_.say_what_is_odd();
  }

  // What messages on all rows call the table.
  const std::string& table() const {
    return files_.size() == 1 ? files_.front()->path : options_.path;
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

  const CsvFiles& files_;
  CsvScanner scanner_;  // of the file that is read
  const CsvColumns& columns_;
  const DataOptions& options_;
  bool regression_;
  bool several_;  // label columns
  bool standardized_;
  std::vector<std::size_t> features_;             // columns
  std::vector<std::unique_ptr<CsvFeature>> odd_;  // [features]; null: of numbers alone
  Dataset dataset_;
  int64_t samples_ = 0;
  std::vector<float> row_;
  RoundedNumbers rounded_features_, rounded_targets_;
  CsvFaults faults_;
  CsvNames classes_, clients_;  // labels as they are written
};

}  // namespace

Dataset read_csv(const std::string& file, const DataOptions& options) {
  if (options.task != "classification" && options.task != "regression") {
    throw InvalidArgument(fmt::format("unknown data.task '{}'", options.task), "data.task",
                          "known: classification, regression");
  }
  if (options.label_above && options.task == "regression") {
    throw InvalidArgument("a number to predict is no class", "data.label-above",
                          "set data.task = classification");
  }
  const PatternFiles found = files_of_pattern(file);
  const CsvFiles files = open_files(found, options);
  const CsvColumns& columns = files.front()->columns;
  std::vector<int64_t> shape = shape_of(columns, options);
  Dataset dataset = CsvTable(files, options).read();
  dataset.shape = std::move(shape);
  dataset.unread = found.unread;
  return dataset;
}

}  // namespace hanse
