// What byzantine participants decide to send in a round, from the inner products of the honest
// updates. The closed forms are those of aggregation/attacks.hpp.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>

#include "hanse/rules/aggregation/attacks.hpp"
#include "hanse/rules/aggregation/gram_view.hpp"
#include "hanse/rules/attack/options.hpp"

namespace hanse {

// A round with H honest updates u, their mean h, and a row p: their deviation by column, or
// sign(h).
struct AttackRound {
  int64_t round = 1;
  std::size_t honest = 0;     // H
  std::size_t byzantine = 0;  // f
  GramView gram = {};         // [H + 2, H + 2] of (u, h, p)
  Displacement displacement = nullptr;  // of the round's rule; for optimal attacks
};

// The coefficients [H + 2] of the row that all byzantine participants send. Pure.
using AttackRule = std::function<AttackRow(const AttackRound& round)>;

// Attacks that decide by formulas.
enum class AttackForm {
  kSignFlip,
  kIpm,
  kAlie,
  kOptimalAlie,
  kOptimalIpm,
  kMinMax,
  kMinSum,
  kMimic,
  kGauss,  // a = sigma p, for p of standard normal values
  kNan
};

// Its options: strength and direction. Throws InvalidArgument later, of a round in which the
// strength of alie is auto and does not exist.
AttackRule make_attack(AttackForm form, const AttackOptions& options);

}  // namespace hanse
