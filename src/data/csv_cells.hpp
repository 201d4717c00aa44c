// The meaning of the text in one field of a table.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace hanse {

// Does a text stand for a value that is missing?
enum class Missing {
  kNo,
  kPerhaps,  // "none", "-", "unknown": may be the name of a class
  kYes,      // "NA", "n/a", "NaN", "null", "?", "#N/A", "\N" and the like
};
Missing missing_mark(std::string_view text);

// A decimal number, infinity beyond the doubles; empty: it is no number.
std::optional<double> to_number(std::string_view text);

// The number that a text means if Unicode's minus or blanks, blanks, "_" or a decimal comma are
// mended; empty: none.
std::string meant_number(std::string_view text);

// A hint at how to mend a text that should be a number.
std::string number_hint(std::string_view text);

// Throws InvalidArgument: the text is not UTF-8.
void require_utf8(std::string_view text, const std::string& where);

}  // namespace hanse
