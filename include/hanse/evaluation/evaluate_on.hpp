// Which samples of the clients evaluations are of: evaluate.on.
#pragma once

#include <array>

namespace hanse {

// Of clients in training: their test samples, those for validation, or both.
enum class EvaluateOn { kTest, kValidation, kBoth };
constexpr auto choices_of(EvaluateOn) { return std::array{"test", "validation", "both"}; }

}  // namespace hanse
