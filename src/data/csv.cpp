// Numeric tables with a header line; data/README.md has the grammar.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "hanse/base/error.hpp"
#include "hanse/base/options.hpp"
#include "hanse/data/dataset.hpp"
#include "input_file.hpp"

namespace hanse {

namespace {

// Cuts a text into records of fields. A field may be quoted; "" in it is one quote.
class CsvScanner {
 public:
  CsvScanner(const std::string& file, std::string_view text) : file_(file), text_(text) {}

  // Fields of the next record, valid until the next call; false at the end.
  bool next() {
    if (at_end()) return false;
    line_ = next_line_;
    std::size_t n = 0;
    for (bool ends = false; !ends; ++n) {
      if (n == fields_.size()) fields_.emplace_back();
      if (!at_end() && text_[at_] == '"') {
        scan_quoted(fields_[n]);
      } else {
        scan_plain(fields_[n]);
      }
      ends = at_end() || text_[at_] == '\n';
      if (!at_end() && text_[at_++] == '\n') ++next_line_;
    }
    fields_.resize(n);
    return true;
  }

  const std::vector<std::string>& fields() const { return fields_; }

  std::string where() const { return fmt::format("{}:{}", file_, line_); }

 private:
  void scan_plain(std::string& field) {
    const std::size_t end = std::min(text_.find_first_of(",\n", at_), text_.size());
    field = trim(text_.substr(at_, end - at_));  // takes the \r of a CRLF along
    at_ = end;
  }

  void scan_quoted(std::string& field) {
    field.clear();
    for (++at_;; ++at_) {
      if (at_end()) {
        throw InvalidArgument("a quoted field does not end", where(), "close it with a quote");
      }
      if (text_[at_] == '\n') ++next_line_;
      if (text_[at_] == '"') {
        if (at_ + 1 >= text_.size() || text_[at_ + 1] != '"') break;
        ++at_;
      }
      field += text_[at_];
    }
    ++at_;
    if (!at_end() && text_[at_] == '\r') ++at_;
    if (!at_end() && text_[at_] != ',' && text_[at_] != '\n') {
      throw InvalidArgument("text follows a closing quote", where(),
                            "write a quote inside a quoted field twice");
    }
  }

  bool at_end() const { return at_ >= text_.size(); }

  const std::string& file_;
  std::string_view text_;
  std::size_t at_ = 0;
  int64_t line_ = 0;  // where the record starts, from 1
  int64_t next_line_ = 1;
  std::vector<std::string> fields_;  // of the last record: the strings' memory is used again
};

struct Columns {
  std::vector<std::string> names;
  std::vector<std::size_t> labels;  // at least one
  std::optional<std::size_t> client;

  bool is_label(std::size_t column) const { return std::ranges::count(labels, column) > 0; }
  bool is_feature(std::size_t column) const { return !is_label(column) && column != client; }
  int64_t features() const { return std::ssize(names) - std::ssize(labels) - (client ? 1 : 0); }
};

std::vector<std::string> column_names(const CsvScanner& scanner) {
  const std::vector<std::string>& names = scanner.fields();
  std::unordered_set<std::string_view> seen;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i].empty()) {
      throw InvalidArgument(fmt::format("column {} has no name", i + 1), scanner.where(),
                            "write the header line, and no column of row numbers");
    }
    if (!seen.insert(names[i]).second) {
      throw InvalidArgument(fmt::format("column '{}' stands twice", names[i]), scanner.where(),
                            "give every column its own name");
    }
  }
  return names;
}

std::size_t find_column(const CsvScanner& scanner, const std::vector<std::string>& names,
                        const std::string& name, const std::string& option) {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found != names.end()) return static_cast<std::size_t>(found - names.begin());
  throw InvalidArgument(fmt::format("there is no column '{}'", name), scanner.where(),
                        fmt::format("set {}; did you mean '{}'? the header has {} columns", option,
                                    nearest(name, names), names.size()));
}

// One name, which may have a comma, or several.
std::vector<std::size_t> find_labels(const CsvScanner& scanner,
                                     const std::vector<std::string>& names,
                                     const std::string& wanted) {
  if (wanted.empty()) return {names.size() - 1};
  if (std::ranges::count(names, wanted) > 0) {
    return {find_column(scanner, names, wanted, "data.label-column")};
  }
  std::vector<std::size_t> labels;
  for (const std::string& name : split_list(wanted)) {
    labels.push_back(find_column(scanner, names, name, "data.label-column"));
    if (std::ranges::count(labels, labels.back()) == 1) continue;
    throw InvalidArgument(fmt::format("column '{}' is named twice", name), "data.label-column",
                          "name every label's column once");
  }
  return labels;
}

Columns read_header(CsvScanner& scanner, const DataOptions& options) {
  if (!scanner.next()) {
    throw InvalidArgument("the file is empty", scanner.where(), "its first line names the columns");
  }
  Columns columns{.names = column_names(scanner)};
  columns.labels = find_labels(scanner, columns.names, options.label_column);
  if (!options.client_column.empty()) {
    columns.client =
        find_column(scanner, columns.names, options.client_column, "data.client-column");
  }
  if (columns.client && columns.is_label(*columns.client)) {
    throw InvalidArgument(
        fmt::format("column '{}' is both label and client", columns.names[*columns.client]),
        scanner.where(), "set data.label-column and data.client-column to different columns");
  }
  if (columns.features() < 1) {
    throw InvalidArgument("there is no feature column", scanner.where(),
                          "a row has at least one number beside label and client");
  }
  return columns;
}

// Of one sample: the row of its features, or what they are together.
std::vector<int64_t> shape_of(const Columns& columns, const DataOptions& options) {
  if (options.shape.empty()) return {columns.features()};
  double values = 1;
  for (const int64_t extent : options.shape) values *= static_cast<double>(extent);
  if (values == static_cast<double>(columns.features())) return options.shape;
  throw InvalidArgument(fmt::format("the shape {} has {} values, the table {} feature columns",
                                    options.shape, values, columns.features()),
                        "data.shape", "leave it empty for a row of numbers");
}

std::optional<double> to_number(std::string_view text) {
  if (!text.empty() && text.front() == '+') text.remove_prefix(1);
  double value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (end != text.data() + text.size() || code == std::errc::invalid_argument) return std::nullopt;
  return code == std::errc() ? value : std::numeric_limits<double>::infinity();
}

// Reads the rows below the header. Labels are numbered when all of them are known.
class CsvTable {
 public:
  CsvTable(CsvScanner& scanner, const Columns& columns, bool regression)
      : scanner_(scanner),
        columns_(columns),
        regression_(regression),
        several_(columns.labels.size() > 1) {
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
      dataset_.label_values = std::ssize(columns_.labels);
      dataset_.multi_label = !regression_;
      for (const std::size_t column : columns_.labels) {
        if (!regression_) dataset_.class_names.push_back(columns_.names[column]);
      }
      dataset_.class_names = without_numbers(std::move(dataset_.class_names));
    } else if (!regression_) {
      number_labels();
    }
    dataset_.storage = Storage::kFloat;
    return std::move(dataset_);
  }

 private:
  void read_row() {
    if (scanner_.fields().size() != columns_.names.size()) {
      const std::size_t last = std::min(scanner_.fields().size(), columns_.names.size() - 1);
      throw InvalidArgument(fmt::format("the row has {} fields, the header {}",
                                        scanner_.fields().size(), columns_.names.size()),
                            where(last), "quote fields that hold a comma");
    }
    for (const std::size_t column : features_) row_.push_back(read_float(column));
    const auto values = std::as_bytes(std::span<const float>(row_));
    dataset_.features.insert(dataset_.features.end(), values.begin(), values.end());
    row_.clear();
    if (regression_ || several_) {
      for (const std::size_t column : columns_.labels) read_target(column);
    } else {
      read_label(columns_.labels.front());
    }
    if (columns_.client) read_client();
  }

  float read_float(std::size_t column) const {
    const std::string& text = cell(column);
    const auto value = to_number(text);
    if (!value) {
      throw InvalidArgument(fmt::format("'{}' is not a number", text), where(column),
                            "only the client column and class labels may be text");
    }
    const auto rounded = static_cast<float>(*value);
    if (!std::isfinite(rounded)) {
      throw InvalidArgument(fmt::format("'{}' is not finite in float32", text), where(column),
                            "replace it or remove the row");
    }
    return rounded;
  }

  // A number, or the mark of one of several classes.
  void read_target(std::size_t column) {
    const float value = read_float(column);
    if (!regression_ && value != 0 && value != 1) {
      throw InvalidArgument(
          fmt::format("one of several labels is 0 or 1, not '{}'", cell(column)), where(column),
          "set data.task = regression for numbers, or name one column of data.label-column");
    }
    dataset_.targets.push_back(value);
  }

  void read_label(std::size_t column) {
    const std::string& text = cell(column);
    const auto number = to_number(text);
    if (number && *number != std::floor(*number)) {
      throw InvalidArgument(fmt::format("label '{}' is not an integer", text), where(column),
                            "set data.task = regression, or label classes by integers or text");
    }
    if (number && !std::isfinite(*number)) {
      throw InvalidArgument(fmt::format("label '{}' is not finite", text), where(column),
                            "replace it or remove the row");
    }
    numeric_labels_ = numeric_labels_ && number;
    const auto next = static_cast<int32_t>(seen_labels_.size());
    dataset_.labels.push_back(seen_labels_.emplace(text, next).first->second);
  }

  void read_client() {
    const std::string& text = cell(*columns_.client);
    const auto next = static_cast<int64_t>(groups_.size());
    const auto [entry, is_new] = groups_.emplace(text, next);
    if (is_new) dataset_.group_names.push_back(text);
    dataset_.groups.push_back(entry->second);
  }

  // Numbers each class by its place.
  void name_classes(std::map<std::pair<double, std::string>, int32_t>& class_of) {
    for (auto& [key, number] : class_of) {
      number = static_cast<int32_t>(dataset_.classes++);
      dataset_.class_names.push_back(numeric_labels_ ? fmt::format("{}", key.first + 0.0)
                                                     : key.second);
    }
    dataset_.class_names = without_numbers(std::move(dataset_.class_names));
  }

  // Classes are the distinct labels in sorted order: by value when all are integers, so that labels
  // 0..n-1 keep their numbers, else by their bytes.
  void number_labels() {
    std::map<std::pair<double, std::string>, int32_t> class_of;
    std::vector<const int32_t*> class_by_order(seen_labels_.size());
    for (const auto& [text, order] : seen_labels_) {
      const auto key =
          numeric_labels_ ? std::pair(*to_number(text), std::string()) : std::pair(0.0, text);
      class_by_order[static_cast<std::size_t>(order)] = &class_of[key];
    }
    name_classes(class_of);
    for (int32_t& label : dataset_.labels) label = *class_by_order[static_cast<std::size_t>(label)];
  }

  const std::string& cell(std::size_t column) const {
    const std::string& text = scanner_.fields()[column];
    if (text.empty()) {
      throw InvalidArgument("the cell is empty", where(column), "fill it in or remove the row");
    }
    return text;
  }

  std::string where(std::size_t column) const {
    return fmt::format("{}, column '{}'", scanner_.where(), columns_.names[column]);
  }

  CsvScanner& scanner_;
  const Columns& columns_;
  bool regression_;
  bool several_;                       // label columns
  std::vector<std::size_t> features_;  // columns
  Dataset dataset_;
  std::vector<float> row_;
  std::unordered_map<std::string, int32_t> seen_labels_;  // -> order of appearance
  bool numeric_labels_ = true;
  std::unordered_map<std::string, int64_t> groups_;
};

// The text between a byte order mark and blank last lines.
std::string_view content(std::string_view text) {
  if (text.substr(0, 3) == "\xEF\xBB\xBF") text.remove_prefix(3);
  return text.substr(0, text.find_last_not_of(" \t\r\n") + 1);
}

}  // namespace

Dataset read_csv(const std::string& file, const DataOptions& options) {
  if (options.task != "classification" && options.task != "regression") {
    throw InvalidArgument(fmt::format("unknown data.task '{}'", options.task), "data.task",
                          "known: classification, regression");
  }
  const InputText text(file);
  CsvScanner scanner(file, content(text.view()));
  const Columns columns = read_header(scanner, options);
  std::vector<int64_t> shape = shape_of(columns, options);
  Dataset dataset = CsvTable(scanner, columns, options.task == "regression").read();
  dataset.shape = std::move(shape);
  return dataset;
}

}  // namespace hanse
