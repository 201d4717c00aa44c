// Weights by a formula: normalised values, and needs only for what it names.
#include <cmath>

#include "hanse/base/error.hpp"
#include "hanse/rules/aggregation/aggregator.hpp"
#include "rules/aggregation/support.hpp"
#include "support/errors.hpp"

namespace hanse {
namespace {

const Ids kClients{4, 0, 2};
const Numbers kSamples{10, 30, 60};
const Numbers kLambda{0.1, 0.3, 0.6};
const Numbers kDraws{1.8, 0.9, 0.3};
const Numbers kLosses{1, 3, 2};
const Numbers kNorms{4, 0, 1};

Numbers weigh(const std::string& formula) {
  return make_by_formula(formula, 5)
      ->mix({.round = 3,
             .clients = kClients,
             .lambda = kLambda,
             .draw_weights = kDraws,
             .losses = kLosses,
             .samples = kSamples,
             .norms = kNorms})
      .coefficients;
}

TEST(ByFormula, ValuesOverTheirSum) {
  expect_near(weigh("1"), {1.0 / 3, 1.0 / 3, 1.0 / 3}, 0);
  expect_near(weigh("n"), {0.1, 0.3, 0.6}, 1e-16);
  expect_near(weigh("2 * lambda"), {0.1, 0.3, 0.6}, 1e-16);
  expect_near(weigh("w"), {0.6, 0.3, 0.1}, 1e-15);  // only where it is named
  expect_near(weigh("F"), {1.0 / 6, 0.5, 1.0 / 3}, 1e-16);
  expect_near(weigh("norm"), {0.8, 0, 0.2}, 1e-16);
  expect_near(weigh("n * (K - 2) + M * round"), {25.0 / 145, 45.0 / 145, 75.0 / 145}, 1e-16);
}

TEST(ByFormula, TermAndSuperquantileAsFormulas) {
  const RoundReport report{.round = 1,
                           .clients = kClients,
                           .lambda = kLambda,
                           .draw_weights = kDraws,
                           .losses = kLosses,
                           .samples = kSamples};
  const double e = std::exp(-2.0), e2 = std::exp(-4.0);
  const double sum = e2 + 1 + e;
  expect_near(make_by_formula("exp(2 * F)", 5)->mix(report).coefficients,
              {e2 / sum, 1 / sum, e / sum}, 1e-15);
  // tail 1/2 of three equal shares: 2/3 for the largest loss, 1/3 for the next.
  const auto tail = make_by_formula("max(0, min(2 / K, 1 - (K - rank(F)) * 2 / K))", 5);
  expect_near(tail->mix(report).coefficients, {0, 2.0 / 3, 1.0 / 3}, 1e-15);
}

TEST(ByFormula, WeighsByTheTimesOfAParticipantsWork) {
  const std::vector<int64_t> staleness{0, 1, 3};
  const Numbers seconds{4, 1, 2};
  const auto rule = make_by_formula("1 / (1 + staleness) + duration", 5);
  EXPECT_EQ(rule->mix({.round = 1,
                       .clients = kClients,
                       .lambda = kLambda,
                       .draw_weights = kDraws,
                       .losses = {},
                       .staleness = staleness,
                       .durations = seconds})
                .coefficients,
            (Numbers{5 / 8.75, 1.5 / 8.75, 2.25 / 8.75}));
  // Nobody is late in a run without a clock, and nothing takes any time.
  EXPECT_EQ(weigh("staleness + duration + w"), weigh("w"));
}

TEST(ByFormula, NeedsWhatItNames) {
  const auto needs = [](const std::string& formula) {
    return make_by_formula(formula, 5)->needs();
  };
  EXPECT_FALSE(needs("w / K").losses);
  EXPECT_FALSE(needs("w / K").sizes);
  EXPECT_FALSE(needs("w / K").norms);
  EXPECT_FALSE(needs("F").after_training());
  EXPECT_TRUE(needs("F").losses);
  EXPECT_TRUE(needs("n").sizes);
  EXPECT_TRUE(needs("lambda").sizes);
  EXPECT_TRUE(needs("1 / norm").norms);
  EXPECT_TRUE(needs("1 / norm").after_training());
  EXPECT_FALSE(needs("1 / norm").gram);
}

TEST(ByFormula, RefusesWhatCannotWeigh) {
  expect_error<InvalidArgument>([] { weigh("F - 2"); },
                                {"'F - 2' is -1 for client 4 in round 3", "aggregator.formula"});
  expect_error<InvalidArgument>([] { weigh("1 / norm"); }, {"inf for client 0"});
  expect_error<InvalidArgument>([] { make_by_formula("age", 5); }, {"unknown name 'age'"});
}

}  // namespace
}  // namespace hanse
