// Whole numbers of any length, as text: a double holds all of them only below 2^53, and codes and
// identifiers are longer.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace hanse {

// The digits of a decimal number without a fraction, behind "-" when it is negative: "7" for "7",
// "+7", "007", "7.0" and "70e-1", "0" for "-0". Empty: it is no number, has a fraction, or is
// written with an exponent and has more than 1000 digits.
std::optional<std::string> whole_number(std::string_view text);

// Compares by value. REQUIRES: results of whole_number().
bool less_whole(const std::string& a, const std::string& b);

}  // namespace hanse
