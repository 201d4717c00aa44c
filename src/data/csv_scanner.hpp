// A text as records of fields: the grammar of csv in data/README.md.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hanse {

// The meaning of a table's characters.
struct CsvDialect {
  char separator = ',';
  char line_end = '\n';    // '\r': the text has no '\n'
  int64_t first_line = 1;  // number of the text's first line in its file
};

struct CsvField {
  std::string text;
  bool quoted = false;
};

// A field may be quoted; "" in it is one quote. A copy reads on from the original's place.
class CsvScanner {
 public:
  // Both texts outlive it and its copies.
  CsvScanner(const std::string& file, std::string_view text, const CsvDialect& dialect)
      : file_(&file), text_(text), dialect_(dialect), next_line_(dialect.first_line) {}

  // Fields of the next record, valid until the next call; false at the end. Throws InvalidArgument:
  // quotes that do not match.
  bool next();

  const std::vector<CsvField>& fields() const { return fields_; }
  const std::string& file() const { return *file_; }
  const CsvDialect& dialect() const { return dialect_; }
  int64_t line() const { return line_; }  // where the record starts
  std::string where() const;

 private:
  void scan_plain(CsvField& field);
  void scan_quoted(CsvField& field);
  bool at_end() const { return at_ >= text_.size(); }
  bool at(char c) const { return text_[at_] == c; }
  bool at_field_end() const { return at(dialect_.separator) || at(dialect_.line_end); }

  const std::string* file_;
  std::string_view text_;
  CsvDialect dialect_;
  std::size_t at_ = 0;
  int64_t line_ = 0;
  int64_t next_line_;
  std::vector<CsvField> fields_;  // of the last record; the strings' memory is used again
};

}  // namespace hanse
