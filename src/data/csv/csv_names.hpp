// The distinct texts of a column of names: of clients, or of classes.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "csv/csv_scanner.hpp"
#include "hanse/data/dataset.hpp"

namespace hanse {

enum class NamesOf { kClients, kClasses, kCategories };

// Where a name appeared first.
struct CsvName {
  std::string text;
  const std::string* file = nullptr;
  int64_t line = 0;
  bool quoted = false;
  Missing missing = Missing::kNo;
};

class CsvNames {
 public:
  // `place` ends the place in messages: "column 'site'". The scanner outlives it.
  CsvNames(const CsvScanner& scanner, NamesOf what, std::string place)
      : scanner_(scanner), what_(what), place_(std::move(place)) {}

  // The number of a field's name, by first appearance, and whether it is new. Throws
  // InvalidArgument: it is missing, or not UTF-8.
  std::pair<int64_t, bool> number(const CsvField& field);

  const std::deque<CsvName>& all() const { return names_; }

  // Remarks on odd but valid names: marks of missing values, names that differ by little.
  void say_what_is_odd() const;

  std::string file_and_column(const CsvName& name) const;
  std::string where(const CsvName& name) const;

 private:
  std::string here() const;

  const CsvScanner& scanner_;
  NamesOf what_;
  std::string place_;
  std::deque<CsvName> names_;  // a deque: names stay in place
  std::unordered_map<std::string_view, int64_t> number_of_;
};

// Names in sorted order: whole numbers by value, and behind them the others by their bytes.
struct SortedNames {
  std::vector<int64_t> places;     // of the names, in the order of CsvNames::all()
  std::vector<std::string> names;  // numbers as whole_number() writes them
};
// If `are_mixed`, ways to write one number are several names; else they are one.
SortedNames sorted_names(const CsvNames& names, bool are_mixed);

// Numbers the classes in `names`, and names them, in sorted order: whole numbers by value, so that
// labels 0..n-1 keep their numbers, and behind them the others by their bytes. The dataset's labels
// are numbers of names and become numbers of classes. Says when there are both. Throws
// InvalidArgument: among whole numbers stands a mark of a missing label, or a single word, which is
// taken for a mistake.
void number_classes(const CsvNames& names, Dataset& dataset);

}  // namespace hanse
