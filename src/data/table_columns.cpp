#include "table_columns.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace hanse {

namespace {

// The known values of the samples.
std::vector<double> known_values(const Values& values, Samples samples) {
  std::vector<double> known;
  for (const int64_t i : samples) {
    if (const double value = values.at(i); !std::isnan(value)) known.push_back(value);
  }
  return known;
}

double mean_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

double median_of(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half]
                                : values[half - 1] + (values[half] - values[half - 1]) / 2;
}

bool fills(MissingValues missing) {
  return missing == MissingValues::kMean || missing == MissingValues::kMedian ||
         missing == MissingValues::kCategory;
}

// Records every column: its values, and how a missing one is filled, also where none was missing.
class Recorder {
 public:
  Recorder(const Dataset& dataset, const Clients& clients, MissingValues missing, Standardize scope)
      : dataset_(dataset), clients_(clients), missing_(missing), scope_(scope) {
    const bool has_own = scope == Standardize::kClient;
    record_ = dataset.record;
    record_.values.clear();
    record_.preparations.resize(has_own ? to_index(clients.size()) : 1);
  }

  FeatureRecord record() {
    for (int64_t i = 0; i < dataset_.sample_values(); ++i) {
      const auto open = std::ranges::find(dataset_.open, i, &OpenColumn::feature);
      const OpenColumn whole{.feature = i, .name = dataset_.record.values[to_index(i)].column};
      add(plan_column(open == dataset_.open.end() ? whole : *open, values_of(dataset_, i), clients_,
                      missing_));
    }
    return std::move(record_);
  }

 private:
  void add(const Column& column) {
    const RecordedValue& read = dataset_.record.values[to_index(column.open->feature)];
    if (!column.is_category()) record_.values.push_back(read);
    for (std::size_t k = 0; k < column.place.size(); ++k) {
      const std::string& level = column.open->levels[k];
      if (column.place[k] < 0) {
        record_.foreign.emplace_back(read.column, level);
      } else {
        record_.values.push_back({ValueOf::kLevel, read.column, level});
      }
    }
    if (column.marks_missing) record_.values.push_back({ValueOf::kMissing, read.column});
    if (fills(missing_)) add_fills(column);
  }

  void add_fills(const Column& column) {
    const Filling all = filling_of(column, clients_.trained_on(), missing_);
    for (std::size_t c = 0; c < record_.preparations.size(); ++c) {
      Filling own = scope_ == Standardize::kClient
                        ? filling_of(column, clients_.training(static_cast<int64_t>(c)), missing_)
                        : all;
      if (own.empty()) own = all;
      auto& fills = record_.preparations[c].fills;
      fills.insert(fills.end(), own.begin(), own.end());
      fills.resize(record_.values.size(), std::numeric_limits<double>::quiet_NaN());
    }
  }

  const Dataset& dataset_;
  const Clients& clients_;
  MissingValues missing_;
  Standardize scope_;
  FeatureRecord record_;
};

}  // namespace

Values values_of(const Dataset& dataset, int64_t feature) {
  Values values{.features = reinterpret_cast<const float*>(dataset.features.data()),
                .width = dataset.sample_values(),
                .place = feature};
  for (const PreciseFeature& precise : dataset.precise) {
    if (precise.feature == feature) values.precise = precise.values.data();
  }
  return values;
}

Column plan_column(const OpenColumn& open, const Values& values, const Clients& clients,
                   MissingValues missing) {
  Column column{.open = &open, .values = values};
  bool misses = false;
  std::vector<char> seen(open.levels.size());
  for (const int64_t i : clients.in_training()) {
    const double value = values.at(i);
    misses = misses || std::isnan(value);
    if (!std::isnan(value) && column.is_category()) seen[to_index(static_cast<int64_t>(value))] = 1;
  }
  column.marks_missing = misses && missing == MissingValues::kCategory;
  if (column.is_category()) {
    column.columns = 0;
    for (const char is_there : seen) column.place.push_back(is_there ? column.columns++ : -1);
  }
  column.columns += column.marks_missing ? 1 : 0;
  for (const int64_t i : clients.everybody()) {
    const double value = values.at(i);
    if (column.is_category() && !std::isnan(value) &&
        column.place[to_index(static_cast<int64_t>(value))] < 0)
      ++column.foreign;
  }
  return column;
}

Filling filling_of(const Column& column, std::span<const int64_t> samples, MissingValues missing) {
  Filling filling(to_index(column.columns), 0.0);
  if (column.marks_missing) filling.back() = 1;
  if (column.is_category() && missing == MissingValues::kCategory) return filling;
  const std::vector<double> known = known_values(column.values, samples);
  if (known.empty()) return {};
  if (!column.is_category()) {
    filling.front() = missing == MissingValues::kMedian ? median_of(known) : mean_of(known);
    return filling;
  }
  for (const double level : known) {
    const int64_t place = column.place[to_index(static_cast<int64_t>(level))];
    if (place >= 0) ++filling[to_index(place)];
  }
  const auto most = std::ranges::max_element(filling);
  if (missing == MissingValues::kMedian) {  // the most frequent one
    const auto at = most - filling.begin();
    filling.assign(filling.size(), 0.0);
    filling[to_index(at)] = 1;
    return filling;
  }
  for (double& share : filling) share /= static_cast<double>(known.size());
  return filling;
}

void record_columns(Dataset& dataset, const Clients& clients, MissingValues missing,
                    Standardize scope) {
  if (dataset.record.values.empty() || (dataset.open.empty() && !fills(missing))) return;
  dataset.record = Recorder(dataset, clients, missing, scope).record();
}

}  // namespace hanse
