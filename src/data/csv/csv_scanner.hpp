// A text as records of fields, the grammar of csv in data/README.md, and what the text of one field
// means.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hanse/base/error.hpp"

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
  // From the next record on field i is the one that stands at order[i]; those of a record with
  // another number of fields stay where they are.
  void arrange(std::vector<std::size_t> order) { order_ = std::move(order); }
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
  std::vector<CsvField> fields_;    // of the last record; the strings' memory is used again
  std::vector<std::size_t> order_;  // empty: fields stay where they are
  std::vector<CsvField> arranged_;
};

// Does a text stand for a value that is missing?
enum class Missing {
  kNo,
  kPerhaps,  // "none", "-", "unknown": may be the name of a class
  kYes,      // "NA", "n/a", "NaN", "null", "?", "#N/A", "\N" and the like
};
Missing missing_mark(std::string_view text);

// A decimal number, infinity beyond the doubles; empty: it is no number.
std::optional<double> to_number(std::string_view text);

// A fault of the file's encoding, and not of one place.
struct NotUtf8 : InvalidArgument {
  using InvalidArgument::InvalidArgument;
};

// Throws NotUtf8: the text is not UTF-8.
void require_utf8(std::string_view text, const std::string& where);

// A whole number of any length as text: a double holds all of them only below 2^53, and codes and
// identifiers are longer. The digits of a decimal number without a fraction, behind "-" when it is
// negative: "7" for "7",
// "+7", "007", "7.0" and "70e-1", "0" for "-0". Empty: it is no number, has a fraction, or is
// written with an exponent and has more than 1000 digits.
std::optional<std::string> whole_number(std::string_view text);

// Compares by value. REQUIRES: results of whole_number().
bool less_whole(const std::string& a, const std::string& b);

}  // namespace hanse
