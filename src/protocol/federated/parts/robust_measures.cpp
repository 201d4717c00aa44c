// What is measured of robust rules, and of rules among attackers.
#include <limits>
#include <vector>

#include "federated/known_round.hpp"
#include "federated/parts/parts.hpp"
#include "hanse/base/index.hpp"
#include "hanse/rules/aggregation/robustness.hpp"

namespace hanse {

namespace {

constexpr double kUnmeasured = std::numeric_limits<double>::quiet_NaN();
constexpr Robustness kUnknown{kUnmeasured, kUnmeasured, kUnmeasured};

class RobustMeasures final : public RoundPart {
 public:
  explicit RobustMeasures(const PartsOf& of) : own_columns_(of.parts.own_columns != nullptr) {}

  void drawn(int64_t) override { found_ = kUnknown; }

  void weighed(const WeighedRound& round) override {
    const RoundRoles& roles = round.roles;
    const std::vector<int64_t> honest = roles.honest();
    if (round.deviations) {
      found_ = round.deviations->result(std::ssize(honest));
      if (own_columns_) found_.byzantine_weight = kUnmeasured;  // only the rule knows
      return;
    }
    measure_weights(round.coefficients, roles);
    if (round.gram.empty() || honest.empty()) return;
    std::vector<char> is_honest(round.coefficients.size());
    for (const int64_t at : honest) is_honest[to_index(at)] = 1;
    const GramView gram{round.gram, round.coefficients.size()};
    found_.kappa = measure_robustness(gram, round.coefficients, is_honest).kappa;
  }

  void add_columns(Columns& columns) const override {
    columns.add_to_rounds([this] {
      return Metrics{{"kappa_hat", found_.kappa},
                     {"byzantine_weight", found_.byzantine_weight},
                     {"honest_recall", found_.honest_recall}};
    });
  }

 private:
  void measure_weights(std::span<const double> coefficients, const RoundRoles& roles) {
    found_ = {kUnmeasured, 0, 0};
    double honest = 0;
    for (std::size_t i = 0; i < roles.clients.size(); ++i) {
      if (roles.byzantine[i]) {
        found_.byzantine_weight += coefficients[i];
      } else {
        honest += 1;
        found_.honest_recall += coefficients[i] > 0;
      }
    }
    found_.honest_recall /= honest;
  }

  bool own_columns_;
  Robustness found_ = kUnknown;  // of the round; NaN: not known
};

}  // namespace

std::unique_ptr<RoundPart> make_robust_measures(const PartsOf& of) {
  return std::make_unique<RobustMeasures>(of);
}

}  // namespace hanse
