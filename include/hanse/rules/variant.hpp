// Forms of a published rule.
#pragma once

#include <array>

namespace hanse {

enum class Variant {
  kPaper,      // as printed
  kReference,  // as the authors ran it
  kCorrected,  // with what the analysis needs; as printed where a rule says nothing of it
};
constexpr auto choices_of(Variant) { return std::array{"paper", "reference", "corrected"}; }

}  // namespace hanse
