// The first line of a table: its columns and their separator.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "csv/csv_scanner.hpp"
#include "hanse/data/dataset.hpp"

namespace hanse {

struct CsvColumns {
  std::vector<std::string> names;
  std::vector<std::size_t> labels;  // at least one
  std::vector<std::size_t> dropped;
  std::vector<std::size_t> categories;  // that the options name
  std::optional<std::size_t> client;
  // All features' names are numbers: if the label column also has its own name as a label, the
  // table has no header.
  bool perhaps_a_sample = false;
  std::vector<std::string> remarks;  // for the user, when the table is read

  bool is_label(std::size_t column) const;
  bool is_feature(std::size_t column) const;
  int64_t features() const;
};

// Takes a byte order mark, blank last lines, DOS's mark of the end and a first line "sep=;" off
// `text`, and finds its separator: the comma unless the first line has none, or has the label
// column's name between others of ; tab |.
CsvDialect find_dialect(std::string_view& text, const std::string& label_column);

// Reads the names of the columns. Throws InvalidArgument: the file is empty, or no table.
std::vector<std::string> read_column_names(CsvScanner& scanner);
// Throws InvalidArgument: a name is empty, or stands twice.
void check_column_names(const CsvScanner& scanner, const std::vector<std::string>& names);

// Reads the header. Throws InvalidArgument: it lacks a column that the options name, has a name
// twice, or is a sample.
CsvColumns read_header(CsvScanner& scanner, const DataOptions& options);

// Throws InvalidArgument: the row has more or fewer fields than the header.
void check_fields(const CsvScanner& scanner, const std::vector<std::string>& names);

// Throws the InvalidArgument of a table whose first line, with these fields, is a sample.
[[noreturn]] void refuse_sample(const std::string& where, const std::vector<std::string>& fields,
                                const std::string& more = "");

}  // namespace hanse
