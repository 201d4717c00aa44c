// What byzantine participants decide to send in a round, from the inner products of the honest
// updates. The closed forms are those of aggregation/attacks.hpp.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "hanse/base/state.hpp"
#include "hanse/rules/aggregation/attacks.hpp"
#include "hanse/rules/aggregation/gram_view.hpp"
#include "hanse/rules/attack/options.hpp"

namespace hanse {

// A round with H honest updates u, their mean h, and a row p: their deviation by column, or
// sign(h); and perhaps the last aggregate g.
struct AttackRound {
  int64_t round = 1;
  std::size_t honest = 0;               // H
  std::size_t byzantine = 0;            // f
  GramView gram = {};                   // [R, R] of (u, h, p), or of (u, h, p, g)
  Displacement displacement = nullptr;  // of the round's rule; for optimal attacks
};

// Decides the coefficients [R] of the row that all byzantine participants send. Its state is what
// it remembers of earlier rounds.
class Attack : public Stateful {
 public:
  virtual AttackRow decide(const AttackRound& round) = 0;
  // Does it see the last aggregate, as the last row of the round's products?
  virtual bool sees_last() const { return false; }
};

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
std::unique_ptr<Attack> make_attack(AttackForm form, const AttackOptions& options);

}  // namespace hanse
