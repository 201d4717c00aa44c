// A feature column of a table whose cells are not all numbers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "csv/csv_names.hpp"
#include "csv/csv_scanner.hpp"
#include "hanse/data/dataset.hpp"

namespace hanse {

// true and false, in any case, are 1 and 0; else as to_number().
std::optional<double> number_or_truth(std::string_view text);

// A calendar date, or a time of the day?
bool is_date(std::string_view text);

class CsvFeature {
 public:
  // `is_category`: the options name the column. The scanner and the options outlive it.
  CsvFeature(const CsvScanner& scanner, const DataOptions& options, std::string name,
             bool is_category);

  bool is_category() const { return is_category_; }

  // The value of a cell of this sample, which counts from 0: a number; the place of a level among
  // levels in the order of their appearance; NaN where the value is missing. A column becomes one
  // of categories at its first text if no number stands above; `patches()` are then the values that
  // it gave before. Throws InvalidArgument: the options refuse it; of a column of dates, of texts,
  // or of numbers with something beside them once, for the first of them.
  double read(const CsvField& field, int64_t sample);

  // (sample, level) of cells above that read() took for missing, and that are levels.
  std::vector<std::pair<int64_t, int64_t>> patches() { return std::exchange(patches_, {}); }

  // What is left to be done when all rows are read: nothing, for a column of numbers without a
  // missing value. `places` [levels] become the sorted places of the levels. `samples`: of the
  // table. Throws InvalidArgument: a value was missing after all, or the column has not been called
  // one of categories, and is none: numbers stand among its texts, all of its texts are numbers but
  // for what stands beside them, or most of its samples have a text of their own.
  std::optional<OpenColumn> finish(int64_t samples, std::vector<int64_t>& places);

 private:
  // A mark that is a level where the column has texts, and else a missing value.
  struct Perhaps {
    int64_t sample = 0;
    CsvField field;
    std::string where;
  };

  double missing(const CsvField& field);
  double level(const CsvField& field);
  double text(const CsvField& field, int64_t numbers);  // that stand above it
  [[noreturn]] void refuse_missing(const CsvField& field, const std::string& where) const;
  void refuse_mixture() const;
  void refuse_numbers() const;
  void refuse_names(int64_t samples) const;
  std::string ways_on(const std::string& hint) const;
  std::string where() const;

  const CsvScanner& scanner_;
  const DataOptions& options_;
  std::string name_;  // of the column
  bool is_category_, is_named_;
  CsvNames levels_;
  int64_t missing_ = 0;
  bool misfits_ = false;  // was a text refused, and are more of its kind the same fault?
  int64_t numbers_ = 0;   // below the first text of a column that is not called categories
  CsvName number_;        // the first of these
  int64_t texts_ = 0;     // cells of categories
  int64_t others_ = 0;    // cells above that are no numbers, faults too
  std::vector<Perhaps> perhaps_;
  std::vector<std::pair<int64_t, int64_t>> patches_;
};

}  // namespace hanse
