#include "csv_scanner.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "hanse/base/options.hpp"

namespace hanse {

bool CsvScanner::next() {
  if (at_end()) return false;
  line_ = next_line_;
  std::size_t n = 0;
  for (bool ends = false; !ends; ++n) {
    if (n == fields_.size()) fields_.emplace_back();
    if (!at_end() && at('"')) {
      scan_quoted(fields_[n]);
    } else {
      scan_plain(fields_[n]);
    }
    ends = at_end() || at(dialect_.line_end);
    if (!at_end() && text_[at_++] == dialect_.line_end) ++next_line_;
  }
  fields_.resize(n);
  return true;
}

std::string CsvScanner::where() const {
  return fmt::format("{}:{}", *file_, std::max<int64_t>(line_, dialect_.first_line));
}

void CsvScanner::scan_plain(CsvField& field) {
  const char ends[] = {dialect_.separator, dialect_.line_end};
  const std::size_t end =
      std::min(text_.find_first_of(std::string_view(ends, 2), at_), text_.size());
  field.text = trim(text_.substr(at_, end - at_));  // removes the \r of a CRLF, too
  field.quoted = false;
  at_ = end;
}

void CsvScanner::scan_quoted(CsvField& field) {
  field.text.clear();
  field.quoted = true;
  for (++at_;; ++at_) {
    if (at_end()) {
      throw InvalidArgument("a quoted field does not end", where(), "close it with a quote");
    }
    if (at(dialect_.line_end)) ++next_line_;
    if (at('"')) {
      if (at_ + 1 >= text_.size() || text_[at_ + 1] != '"') break;
      ++at_;
    }
    field.text += text_[at_];
  }
  ++at_;
  if (!at_end() && at('\r') && !at_field_end()) ++at_;
  if (!at_end() && !at_field_end()) {
    throw InvalidArgument("text follows a closing quote", where(),
                          "write a quote inside a quoted field twice");
  }
}

}  // namespace hanse
