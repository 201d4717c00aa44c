// Texts that mean a number and are none as this program reads numbers: decimal commas, parted
// thousands, units, signs of comparison.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace hanse {

struct NumberInText {
  std::string comparison;  // in front: "<" of "<0.01"; empty: none
  std::string unit;        // beside it: "kg" of "80 kg", "$", "%"; empty: none
  std::string number;      // as it would be written: "95.5" of "95,5"
};

// The number that a text holds, and what stands beside it; nothing for another text: "18-25",
// "2 of 3", "1.2.2020". A comma, or a point, that stands alone is a decimal point; blanks,
// apostrophes and several commas or points part groups of three digits. A unit begins with a letter
// or is a sign such as % and the currencies'; it stands behind the number, a currency also in
// front.
std::optional<NumberInText> written_number(std::string_view text);

// The number that a text means if Unicode's minus or blanks, blanks, "_" or a decimal comma are
// mended; empty: none.
std::string meant_number(std::string_view text);

// A hint at how to mend a text that should be a number.
std::string number_hint(std::string_view text);

}  // namespace hanse
