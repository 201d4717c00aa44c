#include "hanse/data/feature_record.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "csv/csv_scanner.hpp"
#include "hanse/base/choice.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"
#include "hanse/base/options.hpp"
#include "hanse/base/text.hpp"

namespace hanse {

namespace {

constexpr const char* kHeader = "role,input,column,level,client,filled,origin,mean,deviation";
constexpr std::size_t kFields = 9;
constexpr const char* kHint =
    "features.csv of a run, or of its model.h5, as the run has written it";

// One line of the table.
struct Line {
  std::string role = {}, input = {}, column = {}, level = {}, client = {}, filled = {}, origin = {},
              mean = {}, deviation = {};

  std::string text() const {
    std::string line = role;
    for (const std::string* field :
         {&input, &column, &level, &client, &filled, &origin, &mean, &deviation}) {
      line.append(",").append(csv_field(*field));
    }
    return line + "\n";
  }
};

std::string number(double value) { return std::isnan(value) ? "" : fmt::format("{}", value); }

void write_label(const FeatureRecord& record, std::string& text) {
  const LabelForm& form = record.labels;
  text += Line{.role = "shape", .level = fmt::format("{}", fmt::join(record.shape, ","))}.text();
  text += Line{.role = "classes", .input = std::to_string(form.classes)}.text();
  text += Line{.role = form.multi_label ? "several_labels" : "label_values",
               .input = std::to_string(form.values)}
              .text();
  for (std::size_t c = 0; c < record.class_names.size(); ++c) {
    text +=
        Line{.role = "class", .input = std::to_string(c), .level = record.class_names[c]}.text();
  }
  for (const std::string& label : record.label_columns) {
    text += Line{.role = "label", .column = label}.text();
  }
  if (record.label_above) {
    text += Line{.role = "label_above", .level = number(*record.label_above)}.text();
  }
  if (!record.client_column.empty()) {
    text += Line{.role = "client", .column = record.client_column}.text();
  }
  for (const std::string& word : record.vocabulary) {
    text += Line{.role = "word", .level = word}.text();
  }
  for (const std::string& column : record.dropped) {
    text += Line{.role = "dropped", .column = column}.text();
  }
}

void write_values(const FeatureRecord& record, const Preparation& own, std::string& text) {
  for (std::size_t i = 0; i < record.values.size(); ++i) {
    const RecordedValue& value = record.values[i];
    Line line{.role = name_of(value.what),
              .input = std::to_string(i),
              .column = value.column,
              .level = value.level,
              .client = own.client};
    if (!own.fills.empty()) line.filled = number(own.fills[i]);
    if (!own.scales.empty()) {
      const ValueScale& scale = own.scales[i];
      if (value.is_precise) line.origin = number(scale.origin);
      line.mean = number(scale.mean);
      line.deviation = number(scale.deviation);
    }
    text += line.text();
  }
}

// Reads the lines, one after another.
class Reader {
 public:
  Reader(const std::string& text, const std::string& file)
      : file_(file), rows_(file_, text, CsvDialect{}) {}

  FeatureRecord read() {
    if (!rows_.next() || fields() != kHeader) refuse("it is no table of features");
    while (rows_.next()) {
      if (rows_.fields().size() != kFields) refuse(fmt::format("a line has {} fields", kFields));
      take();
    }
    if (record_.shape.empty()) refuse("no line tells the shape of a sample");
    double size = 1;
    for (const int64_t extent : record_.shape) size *= static_cast<double>(extent);
    if (!record_.values.empty() && size != static_cast<double>(record_.values.size())) {
      refuse(fmt::format("there are {} inputs, and a sample has {}", record_.values.size(), size));
    }
    for (const Preparation& own : record_.preparations) check(own);
    return std::move(record_);
  }

 private:
  std::string fields() const {
    std::vector<std::string> texts;
    for (const CsvField& field : rows_.fields()) texts.push_back(field.text);
    return join(texts, ",");
  }

  const std::string& field(std::size_t i) const { return rows_.fields()[i].text; }

  [[noreturn]] void refuse(const std::string& what) const {
    throw InvalidArgument(what, rows_.where(), kHint);
  }

  double number_at(std::size_t i) const {
    const auto value = to_number(field(i));
    if (!value || std::isnan(*value)) refuse(fmt::format("'{}' is not a number", field(i)));
    return *value;
  }

  int64_t whole_at(std::size_t i) const {
    const double value = number_at(i);
    if (value < 0 || value > 1e15 || value != std::floor(value)) {
      refuse(fmt::format("'{}' is no count", field(i)));
    }
    return static_cast<int64_t>(value);
  }

  void take() {
    const std::string& role = field(0);
    if (const auto what = value_of<ValueOf>(role)) return take_value(*what);
    if (role == "shape") return take_shape();
    if (role == "classes") {
      record_.labels.classes = whole_at(1);
    } else if (role == "label_values" || role == "several_labels") {
      record_.labels.values = whole_at(1);
      if (record_.labels.values < 1) refuse("a label has no value");
      record_.labels.multi_label = role == "several_labels";
    } else if (role == "class") {
      record_.class_names.push_back(field(3));
    } else if (role == "label") {
      record_.label_columns.push_back(field(2));
    } else if (role == "label_above") {
      record_.label_above = number_at(3);
    } else if (role == "client") {
      record_.client_column = field(2);
    } else if (role == "dropped") {
      record_.dropped.push_back(field(2));
    } else if (role == "word") {
      record_.vocabulary.push_back(field(3));
    } else if (role == "foreign") {
      record_.foreign.emplace_back(field(2), field(3));
    } else if (role == "channel") {
      record_.channels.push_back({number_at(7), number_at(8)});
    } else {
      refuse(fmt::format("unknown role '{}'", printable(role)));
    }
  }

  void take_shape() {
    for (const std::string& extent : split_list(field(3))) {
      record_.shape.push_back(parse_integer(extent));
      if (record_.shape.back() < 1) refuse("an extent of a sample is not positive");
    }
  }

  // The lines of a client come one after another, in the order of the inputs.
  void take_value(ValueOf what) {
    const auto input = to_index(whole_at(1));
    if (input == 0 && !record_.values.empty()) record_.preparations.emplace_back();
    Preparation& own = record_.preparations.back();
    if (input == 0) own.client = field(4);
    if (record_.preparations.size() == 1) {
      record_.values.push_back(
          {.what = what, .column = field(2), .level = field(3), .is_precise = !field(6).empty()});
    }
    const bool is_next = input < record_.values.size() && own.client == field(4) &&
                         (record_.preparations.size() > 1 || input + 1 == record_.values.size());
    if (!is_next) refuse("the inputs do not stand in their order");
    if (!field(5).empty()) {
      own.fills.resize(record_.values.size(), std::numeric_limits<double>::quiet_NaN());
      own.fills[input] = number_at(5);
    }
    if (field(8).empty()) return;
    own.scales.push_back({field(6).empty() ? 0 : number_at(6), number_at(7), number_at(8)});
    if (own.scales.size() != input + 1) refuse("some inputs have a deviation, and others none");
    if (!(own.scales.back().deviation > 0)) refuse("a deviation is not positive");
  }

  void check(const Preparation& own) {
    if (!own.scales.empty() && own.scales.size() != record_.values.size()) {
      refuse("some inputs have a deviation, and others none");
    }
  }

  const std::string& file_;
  CsvScanner rows_;
  FeatureRecord record_;
};

std::vector<std::string> clients_of(const FeatureRecord& record) {
  std::vector<std::string> clients;
  for (const Preparation& own : record.preparations) clients.push_back(own.client);
  return clients;
}

}  // namespace

std::string features_text(const FeatureRecord& record) {
  std::string text = std::string(kHeader) + "\n";
  write_label(record, text);
  for (const auto& [column, level] : record.foreign) {
    text += Line{.role = "foreign", .column = column, .level = level}.text();
  }
  for (const Preparation& own : record.preparations) write_values(record, own, text);
  for (std::size_t c = 0; c < record.channels.size(); ++c) {
    text += Line{.role = "channel",
                 .input = std::to_string(c),
                 .mean = number(record.channels[c].mean),
                 .deviation = number(record.channels[c].deviation)}
                .text();
  }
  return text;
}

FeatureRecord read_features(const std::string& text, const std::string& file) {
  FeatureRecord record = Reader(text, file).read();
  for (Preparation& own : record.preparations) {
    if (!own.fills.empty()) {
      own.fills.resize(record.values.size(), std::numeric_limits<double>::quiet_NaN());
    }
  }
  return record;
}

const Preparation& preparation_of(const FeatureRecord& record, const std::string& client) {
  if (!record.is_by_client()) return record.preparations.front();
  const auto found = std::ranges::find(record.preparations, client, &Preparation::client);
  if (found != record.preparations.end()) return *found;
  const std::vector<std::string> known = clients_of(record);
  if (client.empty()) {
    throw InvalidArgument("each client has means and deviations of its own", "--client",
                          fmt::format("name one of them: {}", join(known, ", ")));
  }
  throw InvalidArgument(fmt::format("no client is called '{}'", printable(client)), "--client",
                        suggestion(client, known));
}

std::string output_name(const FeatureRecord& record, int64_t output) {
  const auto& names =
      record.labels.scored_classes() > 0 ? record.class_names : record.label_columns;
  return output < std::ssize(names) ? names[to_index(output)] : std::to_string(output);
}

std::string value_name(const FeatureRecord& record, int64_t value) {
  if (value >= std::ssize(record.values)) return std::to_string(value);
  const RecordedValue& own = record.values[to_index(value)];
  if (own.column.empty()) return std::to_string(value);
  if (own.what == ValueOf::kLevel) return own.column + "=" + own.level;
  return own.column + (own.what == ValueOf::kMissing ? " missing" : "");
}

}  // namespace hanse
