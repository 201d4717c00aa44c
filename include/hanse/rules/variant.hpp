// Forms of a published rule.
#pragma once

#include <string>

namespace hanse {

enum class Variant {
  kPaper,      // as printed
  kReference,  // as the authors ran it
  kCorrected,  // with what the analysis needs; as printed where a rule says nothing of it
};

// REQUIRES: one of "paper", "reference", "corrected".
inline Variant parse_variant(const std::string& name) {
  if (name == "reference") return Variant::kReference;
  return name == "corrected" ? Variant::kCorrected : Variant::kPaper;
}

}  // namespace hanse
