// The samples on which clients are evaluated: evaluate.on.
#pragma once

#include <array>

namespace hanse {

// Samples of clients in training: test, validation, or both.
enum class EvaluateOn { kTest, kValidation, kBoth };
constexpr auto choices_of(EvaluateOn) { return std::array{"test", "validation", "both"}; }

}  // namespace hanse
