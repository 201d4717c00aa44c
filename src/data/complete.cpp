// Columns of a table made whole: missing values and categories.
#include <algorithm>
#include <cmath>
#include <memory_resource>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "hanse/base/available_memory.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"
#include "hanse/base/log.hpp"
#include "hanse/data/partition.hpp"
#include "table_columns.hpp"

namespace hanse {

namespace {

constexpr std::size_t kMostColumnsTold = 8;  // columns with a notice of their own
constexpr std::size_t kMostListed = 8;       // that a notice lists

// One filling for all clients, or one each.
std::vector<Filling> fillings_of(const Column& column, const Clients& clients,
                                 MissingValues missing, Standardize scope) {
  if (column.open->missing == 0) return {};
  const Filling all = filling_of(column, clients.trained_on(), missing);
  if (all.empty()) {
    throw InvalidArgument(
        fmt::format("column '{}' has no value in any sample that is trained on", column.open->name),
        "data.missing", fmt::format("data.drop-columns = {} leaves it out", column.open->name));
  }
  if (scope != Standardize::kClient) return {all};
  std::vector<Filling> fillings;
  for (int64_t c = 0; c < clients.size(); ++c) {
    Filling own = filling_of(column, clients.training(c), missing);
    fillings.push_back(own.empty() ? all : std::move(own));
  }
  return fillings;
}

std::string categories_text(const Column& column) {
  std::vector<std::string> levels;
  for (std::size_t k = 0; k < column.place.size(); ++k) {
    if (column.place[k] >= 0) levels.push_back(column.open->levels[k]);
  }
  const std::size_t count = levels.size();
  levels.resize(std::min(count, kMostListed));
  std::string text = fmt::format("{} categories: {}{}", count, fmt::join(levels, ", "),
                                 count > kMostListed ? ", ..." : "");
  if (column.foreign == 0) return text;
  return text + fmt::format("; {} one that no client in training has: 0 in each column",
                            column.foreign == 1 ? "1 sample has"
                                                : fmt::format("{} samples have", column.foreign));
}

std::string filling_text(const Column& column, const std::vector<Filling>& fillings,
                         MissingValues missing) {
  const bool median = missing == MissingValues::kMedian;
  const char* what = median ? "median" : "mean";
  if (column.is_category()) {
    if (missing == MissingValues::kCategory) return "a category of their own";
    return median ? "the most frequent category" : "the categories' shares";
  }
  const auto [least, most] =
      std::ranges::minmax(fillings, {}, [](const Filling& filling) { return filling.front(); });
  return fillings.size() == 1
             ? fmt::format("{:.6g}, the {}", least.front(), what)
             : fmt::format("{:.6g} to {:.6g}, the clients' {}s", least.front(), most.front(), what);
}

// "column 'chol': 3 values are missing: 240.5, the mean of the samples that are trained on".
void tell(const Column& column, const std::vector<Filling>& fillings, MissingValues missing) {
  std::vector<std::string> parts;
  if (column.is_category()) parts.push_back(categories_text(column));
  if (const int64_t count = column.open->missing; count > 0) {
    const bool own = column.is_category() && missing == MissingValues::kCategory;
    parts.push_back(fmt::format(
        "{} {} missing: {}{}", count, count == 1 ? "value is" : "values are",
        filling_text(column, fillings, missing), own ? "" : " of the samples that are trained on"));
  }
  notice(fmt::format("column '{}': {}", column.open->name, fmt::join(parts, "; ")));
}

// Writes a sample's columns.
void write(const Column& column, int64_t sample, const Filling* filling, float* out) {
  const double value = column.values.at(sample);
  if (std::isnan(value)) {
    for (int64_t k = 0; k < column.columns; ++k) {
      out[k] = filling ? static_cast<float>((*filling)[to_index(k)]) : 0;
    }
    return;
  }
  std::fill_n(out, column.columns, 0.0F);
  if (!column.is_category()) {
    out[0] = static_cast<float>(value);
  } else if (const int64_t k = column.place[to_index(static_cast<int64_t>(value))]; k >= 0) {
    out[k] = 1;
  }
}

// All columns of a sample, one after another.
class Rows {
 public:
  Rows(Dataset& dataset, const std::vector<Column>& columns)
      : dataset_(dataset), columns_(columns), width_(dataset.sample_values()), wide_(width_) {
    for (const Column& column : columns_) wide_ += column.columns - 1;
    if (wide_ == width_) return;
    if (dataset_.shape.size() != 1) {
      throw InvalidArgument("a shape holds no columns of categories", "data.shape",
                            "leave it empty, or drop those columns");
    }
    const int64_t bytes = dataset_.size() * wide_ * static_cast<int64_t>(sizeof(float));
    require_memory(bytes, "the categories take", "data.categories",
                   "data.drop-columns leaves out columns of many of them");
    wider_.resize(to_index(bytes));
  }

  int64_t width() const { return wide_; }

  // `fillings` [columns], null where nothing is missing.
  void write(int64_t sample, const std::vector<const Filling*>& fillings) {
    auto* all = reinterpret_cast<float*>(dataset_.features.data());
    const float* in = all + sample * width_;
    float* out = wider_.empty() ? all + sample * width_
                                : reinterpret_cast<float*>(wider_.data()) + sample * wide_;
    int64_t done = 0;
    for (std::size_t k = 0; k < columns_.size(); ++k) {
      out = copy(in, done, columns_[k].open->feature, out);
      hanse::write(columns_[k], sample, fillings[k], out);
      out += columns_[k].columns;
      done = columns_[k].open->feature + 1;
    }
    copy(in, done, width_, out);
  }

  // The place among the columns of a feature that stays one.
  int64_t place_of(int64_t feature) const {
    int64_t place = feature;
    for (const Column& column : columns_) {
      if (column.open->feature < feature) place += column.columns - 1;
    }
    return place;
  }

  void finish() {
    if (wide_ == width_) return;
    dataset_.features = std::move(wider_);
    dataset_.shape = {wide_};
  }

 private:
  float* copy(const float* in, int64_t begin, int64_t end, float* out) const {
    if (!wider_.empty()) std::copy(in + begin, in + end, out);
    return out + end - begin;
  }

  Dataset& dataset_;
  const std::vector<Column>& columns_;
  int64_t width_, wide_;
  std::pmr::vector<std::byte> wider_;  // empty: rows stay where they are
};

std::vector<Column> plan_columns(const Dataset& dataset, const Clients& clients,
                                 MissingValues missing) {
  std::vector<Column> columns;
  for (const OpenColumn& open : dataset.open) {
    columns.push_back(plan_column(open, values_of(dataset, open.feature), clients, missing));
  }
  return columns;
}

void tell_all(const std::vector<Column>& columns, const std::vector<std::vector<Filling>>& fillings,
              MissingValues missing) {
  for (std::size_t k = 0; k < std::min(columns.size(), kMostColumnsTold); ++k) {
    tell(columns[k], fillings[k], missing);
  }
  if (columns.size() > kMostColumnsTold) {
    notice(fmt::format("{} more columns likewise", columns.size() - kMostColumnsTold));
  }
}

}  // namespace

void complete(Dataset& dataset, const Partition& partition, const std::vector<char>& held_out,
              MissingValues missing, Standardize scope) {
  if (missing == MissingValues::kKeep && !dataset.open.empty()) {
    throw InvalidArgument("something stands in the place of a missing value", "data.missing",
                          "keep is for run.protocol = statistics");
  }
  if (dataset.record.values.empty() && dataset.open.empty()) return;  // no table
  const Clients clients(partition, held_out);
  record_columns(dataset, clients, missing, scope);
  if (dataset.open.empty()) return;
  const std::vector<Column> columns = plan_columns(dataset, clients, missing);
  std::vector<std::vector<Filling>> fillings;
  for (const Column& column : columns) {
    fillings.push_back(fillings_of(column, clients, missing, scope));
  }
  tell_all(columns, fillings, missing);
  Rows rows(dataset, columns);
  std::vector<const Filling*> own(columns.size());
  for (int64_t c = 0; c < clients.size(); ++c) {
    for (std::size_t k = 0; k < columns.size(); ++k) {
      const auto& all = fillings[k];
      own[k] = all.empty() ? nullptr : &all[all.size() == 1 ? 0 : to_index(c)];
    }
    for (const int64_t i : clients.all(c)) rows.write(i, own);
    for (PreciseFeature& precise : dataset.precise) {
      const auto found = std::ranges::find(dataset.open, precise.feature, &OpenColumn::feature);
      if (found == dataset.open.end()) continue;
      const Filling* filling = own[to_index(found - dataset.open.begin())];
      for (const int64_t i : clients.all(c)) {
        double& value = precise.values[to_index(i)];
        if (filling && std::isnan(value)) value = filling->front();
      }
    }
  }
  for (PreciseFeature& precise : dataset.precise) precise.feature = rows.place_of(precise.feature);
  rows.finish();
  dataset.open.clear();
}

}  // namespace hanse
