// What a model needs to read new data as those that it was trained on: which values its input has,
// how missing ones were filled, and how all were scaled. The reader of the data and the steps that
// change them record here what they did; features.csv of a run holds it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "hanse/data/label_form.hpp"

namespace hanse {

// What a value of the model's input is: a number of a column, 1 for a level of a category, or 1
// where the column's value is missing.
enum class ValueOf { kNumber, kLevel, kMissing };
constexpr auto choices_of(ValueOf) { return std::array{"number", "level", "missing"}; }

struct RecordedValue {
  ValueOf what = ValueOf::kNumber;
  std::string column = {};  // empty: the data have no names
  std::string level = {};   // of a category
  // A category that was not coded (DataOptions::as_is) has these; their numbers are the values.
  std::vector<std::string> levels = {};
  bool is_precise = false;  // read in float64, because float32 cannot hold the column's numbers
};

// x <- (x - origin - mean) / deviation in float64, and then float32. Large numbers next to each
// other have exact differences, but no exact sums: their origin is one of them.
struct ValueScale {
  double origin = 0;
  double mean = 0;
  double deviation = 1;

  double of(double value) const { return (value - origin - mean) / deviation; }
};

// How values are filled and scaled, by the training samples of one client or of all.
struct Preparation {
  std::string client = {};              // its name, else its number; empty: all
  std::vector<double> fills = {};       // [values] where the column's value is missing; NaN: it was
                                        // refused; empty: all were
  std::vector<ValueScale> scales = {};  // [values]; empty: values stay as they are
};

// Images: (x - mean) / deviation, a channel.
struct RecordedChannel {
  double mean = 0;
  double deviation = 1;
};

struct FeatureRecord {
  std::vector<int64_t> shape;         // of a sample
  std::vector<RecordedValue> values;  // [values of a sample]; empty: tables alone have some
  // Levels that samples have and no client in training: (column, level), 0 in each of its values.
  std::vector<std::pair<std::string, std::string>> foreign;
  std::vector<Preparation> preparations = {{}};  // one for all, or one a client
  std::vector<RecordedChannel> channels;         // empty: not scaled
  LabelForm labels;
  std::vector<std::string> class_names;    // [scored classes]; empty: numbers name them
  std::vector<std::string> label_columns;  // of a table
  std::optional<double> label_above;       // the label is 1 above it
  std::string client_column;               // empty: none
  std::vector<std::string> dropped;        // columns that were left out
  // The data's own words in the order of their tokens, or their characters as "U+000A"; empty:
  // tokens are none, or have a fixed list.
  std::vector<std::string> vocabulary;

  bool has_columns() const { return !values.empty() && !values.front().column.empty(); }
  bool is_by_client() const { return preparations.size() > 1 || !preparations[0].client.empty(); }
};

// The record as a table, features.csv: a header and a line for each fact. jobs/predict.md has its
// grammar. Numbers have as many digits as it takes to read them back bit by bit.
std::string features_text(const FeatureRecord& record);
// Reads it. Throws InvalidArgument, with the line: it is no such table. `file` names it.
FeatureRecord read_features(const std::string& text, const std::string& file);

// The preparation of this client; empty: the one for all. Throws InvalidArgument: there is none of
// that name, or each client has its own and none is named.
const Preparation& preparation_of(const FeatureRecord& record, const std::string& client);

// The name of an output of a model: of a class, of a column to predict, or a number.
std::string output_name(const FeatureRecord& record, int64_t output);

// The name of a value: "age", "cp=typical", "chol missing", or "3" where it has none.
std::string value_name(const FeatureRecord& record, int64_t value);

}  // namespace hanse
