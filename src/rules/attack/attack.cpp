#include "hanse/rules/attack/attack.hpp"

#include <limits>
#include <vector>

namespace hanse {

namespace {

AttackRow multiple_of_third(std::size_t honest, double factor) {
  AttackRow row{std::vector<double>(honest + 2), factor};
  row.coefficients.back() = factor;
  return row;
}

AttackRow little(const AttackOptions& options, const AttackRound& round) {
  const auto f = static_cast<int64_t>(round.byzantine);
  const auto n = static_cast<int64_t>(round.honest) + f;
  const double z = options.strength > 0 ? options.strength : little_strength(n, f);
  return little_attack(round.honest, z);
}

// The row sign(h) stands where the deviation would.
AttackDirection direction_of(const AttackOptions& options) {
  return options.direction == Perturbation::kUnit ? AttackDirection::kUnit
                                                  : AttackDirection::kDeviation;
}

AttackRow row_of(AttackForm form, const AttackOptions& options, const AttackRound& round) {
  switch (form) {
    case AttackForm::kSignFlip:
    case AttackForm::kIpm: return inner_product_attack(round.honest, options.strength);
    case AttackForm::kAlie: return little(options, round);
    case AttackForm::kOptimalAlie:
      return optimal_attack(round.honest, OptimalAttack::kLittle, round.displacement);
    case AttackForm::kOptimalIpm:
      return optimal_attack(round.honest, OptimalAttack::kInnerProduct, round.displacement);
    case AttackForm::kMinMax: return min_max_attack(round.gram, direction_of(options));
    case AttackForm::kMinSum: return min_sum_attack(round.gram, direction_of(options));
    case AttackForm::kMimic: return mimic_attack(round.honest);
    case AttackForm::kGauss: return multiple_of_third(round.honest, options.strength);
    case AttackForm::kNan: break;
  }
  return multiple_of_third(round.honest, std::numeric_limits<double>::quiet_NaN());
}

class FormulaAttack final : public Attack {
 public:
  FormulaAttack(AttackForm form, const AttackOptions& options) : form_(form), options_(options) {}

  AttackRow decide(const AttackRound& round) override { return row_of(form_, options_, round); }

 private:
  AttackForm form_;
  AttackOptions options_;
};

}  // namespace

std::unique_ptr<Attack> make_attack(AttackForm form, const AttackOptions& options) {
  return std::make_unique<FormulaAttack>(form, options);
}

}  // namespace hanse
