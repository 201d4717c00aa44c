// A table's columns on their way to the values of samples: the levels of categories, and what fills
// missing values. complete() (partition.hpp) writes them, and record_columns() records them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "hanse/base/index.hpp"
#include "hanse/data/dataset.hpp"
#include "hanse/data/partition.hpp"

namespace hanse {

using Samples = std::span<const int64_t>;

// The samples of each client.
class Clients {
 public:
  Clients(const Partition& partition, const std::vector<char>& held_out)
      : partition_(partition), held_out_(held_out) {
    for (int64_t c = 0; c < size(); ++c) {
      if (held_out_[to_index(c)]) continue;
      const Samples train = training(c), own = all(c);
      training_.insert(training_.end(), train.begin(), train.end());
      all_.insert(all_.end(), own.begin(), own.end());
    }
  }

  int64_t size() const { return partition_.clients(); }
  Samples all(int64_t c) const { return part(c, partition_.offsets[to_index(c + 1)]); }
  Samples training(int64_t c) const { return part(c, partition_.train_end[to_index(c)]); }
  Samples trained_on() const { return training_; }  // of all clients that are not held out
  Samples in_training() const { return all_; }      // theirs, for tests or not
  Samples everybody() const { return partition_.order; }

 private:
  Samples part(int64_t c, int64_t end) const {
    const int64_t begin = partition_.offsets[to_index(c)];
    return Samples(partition_.order).subspan(to_index(begin), to_index(end - begin));
  }

  const Partition& partition_;
  const std::vector<char>& held_out_;
  std::vector<int64_t> training_, all_;
};

// A column's values as they were read.
struct Values {
  double at(int64_t sample) const {
    return precise ? precise[sample] : static_cast<double>(features[sample * width + place]);
  }

  const float* features = nullptr;
  const double* precise = nullptr;  // null: float32 holds them
  int64_t width = 0, place = 0;
};

// One column on its way: it becomes `columns` columns.
struct Column {
  const OpenColumn* open;
  Values values;
  std::vector<int64_t> place;  // [levels] its column, -1: it has none
  int64_t columns = 1;
  bool marks_missing = false;  // the last column is 1 where the value is missing
  int64_t foreign = 0;         // samples of a level that no client in training has

  bool is_category() const { return !open->levels.empty(); }
};

// What stands in a column's columns where its value is missing, [columns].
using Filling = std::vector<double>;

Values values_of(const Dataset& dataset, int64_t feature);

// `values` as they were read; levels are those that clients in training have.
Column plan_column(const OpenColumn& open, const Values& values, const Clients& clients,
                   MissingValues missing);

// The filling by these samples; empty: they know no value.
Filling filling_of(const Column& column, std::span<const int64_t> samples, MissingValues missing);

// Records what complete() makes of each column, and what would fill a value that none of these
// samples misses. Nothing for data without columns. Cost: three passes over the features where
// missing values are filled.
void record_columns(Dataset& dataset, const Clients& clients, MissingValues missing,
                    Standardize scope);

}  // namespace hanse
