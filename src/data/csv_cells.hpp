// What the text of one field of a table means.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace hanse {

// Does a text stand for a value that is missing?
enum class Missing {
  kNo,
  kPerhaps,  // "none", "-", "unknown": the name of a class as well
  kYes,      // "NA", "n/a", "NaN", "null", "?", "#N/A", "\N" and the like
};
Missing missing_mark(std::string_view text);

// A decimal number, infinity where it is beyond the doubles; none: it is no number.
std::optional<double> to_number(std::string_view text);

// The number that a text is but for the minus or blanks of Unicode, blanks, "_" or a decimal comma;
// empty: it is none.
std::string meant_number(std::string_view text);

// What to do about a text that is no number and should be.
std::string number_hint(std::string_view text);

// Throws InvalidArgument: the text is not UTF-8.
void require_utf8(std::string_view text, const std::string& where);

}  // namespace hanse
