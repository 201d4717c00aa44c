#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "hanse/base/error.hpp"
#include "hanse/rules/aggregation/fair.hpp"
#include "rules/aggregation/support.hpp"
#include "support/errors.hpp"

namespace hanse {
namespace {

const double kNan = std::numeric_limits<double>::quiet_NaN();
const double kInfinity = std::numeric_limits<double>::infinity();

// lambda + rate F = (.35, .45, .65) less .15 each; then (.55, .25, .55) less .35/3, ...
TEST(Afl, AscendsAndProjects) {
  const auto rule = make_afl(0.1, false, Estimator::kNormalized, 3);
  expect_near(rule->decision(), Numbers(3, 1.0 / 3), 1e-15);
  const double third = 1.0 / 3;
  // Shift by the mean of rate F = (.1 + .2 + .6) / 3 = .3: nobody reaches 0.
  expect_near(mix_round(*rule, 1, {0, 1, 2}, {1, 2, 6}).coefficients,
              {third + 0.1 - 0.3, third + 0.2 - 0.3, third + 0.6 - 0.3}, 1e-15);
  // lambda + rate F = (2/15, 7/30, 19/30) + (0, .5, .5): the first falls out, then shift by 13/30.
  const Numbers second = mix_round(*rule, 2, {0, 1, 2}, {0, 5, 5}).coefficients;
  expect_near(second, {0, 0.3, 0.7}, 1e-15);
  expect_near(rule->decision(), second, 1e-15);
}

TEST(Afl, OrderOfTheParticipantsDoesNotMatter) {
  const auto straight = make_afl(0.2, false, Estimator::kNormalized, 3);
  const auto shuffled = make_afl(0.2, false, Estimator::kNormalized, 3);
  const Mix a = mix_round(*straight, 1, {0, 1, 2}, {0.5, 1, 2});
  const Mix b = mix_round(*shuffled, 1, {2, 0, 1}, {2, 0.5, 1});
  EXPECT_EQ(b.coefficients, (Numbers{a.coefficients[2], a.coefficients[0], a.coefficients[1]}));
  EXPECT_EQ(straight->decision(), shuffled->decision());
}

// Two of four, w = 2: an unbiased gradient in place of the full one.
TEST(Afl, PartialParticipationUsesTheDrawWeights) {
  for (const Estimator estimator : {Estimator::kNormalized, Estimator::kUnbiased}) {
    const auto rule = make_afl(0.1, false, estimator, 4);
    const Mix mix = mix_round(*rule, 1, {3, 1}, {1, 0.5}, {2, 1.5});
    // (.25, .325, .25, .45) less .275 / 4
    const double shift = 0.275 / 4;
    expect_near(rule->decision(), {0.25 - shift, 0.325 - shift, 0.25 - shift, 0.45 - shift}, 1e-15);
    const double a = (0.45 - shift) * 2;
    const double b = (0.325 - shift) * 1.5;
    const double sum = estimator == Estimator::kUnbiased ? 1 : a + b;
    expect_near(mix.coefficients, {a / sum, b / sum}, 1e-15);
  }
}

// The authors of AAggFF project the participants' part alone; the others keep theirs.
TEST(Afl, RestrictedMovesTheParticipantsOnly) {
  const auto rule = make_afl(0.1, true, Estimator::kNormalized, 4);
  const Mix first = mix_round(*rule, 1, {3, 1}, {1, 0.5}, {2, 7});
  expect_near(first.coefficients, {0.525, 0.475}, 1e-15);  // whatever the draw's weights
  expect_near(rule->decision(), {0.25, 0.475, 0.25, 0.525}, 1e-15);
  const Mix second = mix_round(*rule, 2, {0, 3}, {2, 0}, {2, 2});
  // (.25 + .2, .525) less -.0125
  expect_near(second.coefficients, {0.4625, 0.5375}, 1e-15);
  expect_near(rule->decision(), {0.4625, 0.475, 0.25, 0.5375}, 1e-15);
}

TEST(Afl, ParticipantsWithoutWeightCountTheSame) {
  const auto rule = make_afl(1, false, Estimator::kNormalized, 3);
  mix_round(*rule, 1, {0, 1, 2}, {0, 0, 50});  // all on the third
  EXPECT_EQ(rule->decision(), (Numbers{0, 0, 1}));
  expect_near(mix_round(*rule, 2, {0, 1}, {1e-3, 1e-3}, {1, 1}).coefficients, {0.5, 0.5}, 1e-15);
}

TEST(Afl, HugeLossesStayOnTheSimplex) {
  const auto rule = make_afl(0.01, false, Estimator::kNormalized, 3);
  expect_near(mix_round(*rule, 1, {0, 1, 2}, {1e200, 1, 1e200}).coefficients, {0.5, 0, 0.5}, 1e-15);
}

TEST(Afl, GoesOnAfterLoad) {
  const auto straight = make_afl(0.1, false, Estimator::kNormalized, 3);
  mix_round(*straight, 1, {0, 1, 2}, {1, 2, 6});
  State state;
  straight->save(state);
  const auto resumed = make_afl(0.1, false, Estimator::kNormalized, 3);
  resumed->load(state);
  EXPECT_EQ(resumed->decision(), straight->decision());
  EXPECT_EQ(mix_round(*resumed, 2, {0, 1, 2}, {3, 1, 0}).coefficients,
            mix_round(*straight, 2, {0, 1, 2}, {3, 1, 0}).coefficients);
  EXPECT_THROW(make_afl(0.1, false, Estimator::kNormalized, 4)->load(state), IoError);
}

// theta <- theta - sum F^q Delta / sum (q F^{q-1} |Delta|^2 + L F^q), Delta = L (theta - theta_i).
Numbers qfedavg_weights(double q, double lipschitz, const Numbers& losses, const Numbers& norms) {
  double h = 0;
  for (std::size_t i = 0; i < losses.size(); ++i) {
    h += q * std::pow(losses[i], q - 1) * lipschitz * lipschitz * norms[i] +
         lipschitz * std::pow(losses[i], q);
  }
  Numbers weights;
  for (const double loss : losses) weights.push_back(std::pow(loss, q) * lipschitz / h);
  return weights;
}

struct Sizes {
  Numbers shares;        // lambda
  Numbers draw_weights;  // of any scale
};

Numbers scaled_mix(Aggregator& rule, const Numbers& losses, const Numbers& norms,
                   Sizes sizes = {}) {
  const Ids ids = all_clients(static_cast<int64_t>(losses.size()));
  if (sizes.shares.empty()) sizes = {Numbers(losses.size(), 0.1), Numbers(losses.size(), 3)};
  const RoundReport report{.round = 1,
                           .clients = ids,
                           .lambda = sizes.shares,
                           .draw_weights = sizes.draw_weights,
                           .losses = losses};
  Numbers weights = rule.mix(report).coefficients;
  const double scale = rule.scale(report, norms);
  for (double& weight : weights) weight *= scale;
  return weights;
}

TEST(QFedAvg, EqualsItsFormula) {
  const Numbers losses{0.3, 2, 1.1};
  const Numbers norms{0.04, 0.5, 2};  // |theta_i - theta|^2
  for (const double q : {0.1, 0.5, 1.0, 2.0, 5.0}) {
    for (const double lipschitz : {0.1, 1.0, 20.0}) {
      const auto rule = make_qfedavg(q, lipschitz, ClientWeights::kUniform);
      expect_near(scaled_mix(*rule, losses, norms), qfedavg_weights(q, lipschitz, losses, norms),
                  1e-14);
    }
  }
}

// A client of three shares counts as three clients of one share each.
TEST(QFedAvg, SizesAndDrawsCountAsCopies) {
  const Numbers copies = qfedavg_weights(2, 4, {0.3, 2, 2, 2, 1.1, 1.1}, {1, 2, 2, 2, 3, 3});
  const Numbers together{copies[0], 3 * copies[1], 2 * copies[4]};
  const Numbers losses{0.3, 2, 1.1};
  const Numbers norms{1, 2, 3};
  const auto by_samples = make_qfedavg(2, 4, ClientWeights::kSamples);
  const Numbers shares{1.0 / 6, 1.0 / 2, 1.0 / 3};
  expect_near(scaled_mix(*by_samples, losses, norms, {shares, {2, 2, 2}}), together, 1e-15);
  expect_near(scaled_mix(*by_samples, losses, norms, {{0.2, 0.2, 0.1}, {1, 3, 4}}), together,
              1e-15);
  const auto equal = make_qfedavg(2, 4, ClientWeights::kUniform);
  expect_near(scaled_mix(*equal, losses, norms, {shares, {5, 15, 10}}), together, 1e-15);
  EXPECT_TRUE(by_samples->needs().sizes);
  EXPECT_FALSE(equal->needs().sizes);
}

TEST(QFedAvg, ZeroIsTheMean) {
  const auto rule = make_qfedavg(0, 7, ClientWeights::kUniform);
  expect_near(scaled_mix(*rule, {0.3, 0, 5, 1}, {1, 2, 3, 4}), Numbers(4, 0.25), 1e-15);
}

// A loss of 0 counts as 1e-10, as in the authors' code.
TEST(QFedAvg, LossesOfZero) {
  for (const double q : {0.5, 1.0, 2.0}) {
    const auto rule = make_qfedavg(q, 2, ClientWeights::kUniform);
    expect_near(scaled_mix(*rule, {0, 1}, {0.5, 0.25}),
                qfedavg_weights(q, 2, {1e-10, 1}, {0.5, 0.25}), 1e-14);
    const Numbers none = scaled_mix(*rule, {0, 0}, {0, 0});  // no loss, no movement
    expect_near(none, {0.5, 0.5}, 1e-14);
  }
}

// The common factor of the powers cancels: F^q itself would be out of range.
TEST(QFedAvg, PowersOutOfRange) {
  expect_near(
      scaled_mix(*make_qfedavg(40, 2, ClientWeights::kUniform), {2e-9, 1e-9}, {0.25e-9, 0.5e-9}),
      qfedavg_weights(40, 2, {2, 1}, {0.25, 0.5}), 1e-14);
  const Numbers huge =
      scaled_mix(*make_qfedavg(5, 2, ClientWeights::kUniform), {1e100, 1e99}, {0.25, 0.5});
  expect_near(huge, qfedavg_weights(5, 2, {1, 0.1}, {0, 0}), 1e-14);
}

TEST(QFedAvg, NeedsNormsAndNeitherOrderNorWeights) {
  const auto rule = make_qfedavg(1, 1, ClientWeights::kSamples);
  EXPECT_TRUE(rule->needs().losses);
  EXPECT_TRUE(rule->needs().norms);
  EXPECT_FALSE(rule->needs().full);
  EXPECT_TRUE(rule->decision().empty());
}

TEST(Term, ClosedForm) {
  const auto rule = make_term(0.5, ClientWeights::kUniform);
  const Numbers e{std::exp(0.5), std::exp(1.0), std::exp(-1.5)};
  const double sum = e[0] + e[1] + e[2];
  expect_near(mix_round(*rule, 1, {4, 0, 2}, {1, 2, -3}).coefficients,
              {e[0] / sum, e[1] / sum, e[2] / sum}, 1e-15);
  const double weighted = 2 * e[0] + e[1] + 0.5 * e[2];
  expect_near(mix_round(*rule, 2, {4, 0, 2}, {1, 2, -3}, {2, 1, 0.5}).coefficients,
              {2 * e[0] / weighted, e[1] / weighted, 0.5 * e[2] / weighted}, 1e-15);
}

TEST(Term, TheClientsSizes) {
  const auto rule = make_term(0.5, ClientWeights::kSamples);
  const Ids ids{4, 0, 2};
  const Numbers losses{1, 2, -3}, shares{0.2, 0.5, 0.3}, draws{2, 1, 0.5};
  const Numbers e{0.4 * std::exp(0.5), 0.5 * std::exp(1.0), 0.15 * std::exp(-1.5)};
  const double sum = e[0] + e[1] + e[2];
  const Mix mix = rule->mix(
      {.round = 1, .clients = ids, .lambda = shares, .draw_weights = draws, .losses = losses});
  expect_near(mix.coefficients, {e[0] / sum, e[1] / sum, e[2] / sum}, 1e-15);
  EXPECT_TRUE(rule->needs().sizes);
}

TEST(Term, HugeLossesDoNotOverflow) {
  const auto rule = make_term(100, ClientWeights::kUniform);
  expect_near(mix_round(*rule, 1, {0, 1, 2}, {1e308, 1e308, -1e308}).coefficients, {0.5, 0.5, 0},
              1e-15);
  expect_near(mix_round(*rule, 1, {0, 1}, {5000, 5000 - std::log(3.0) / 100}).coefficients,
              {0.75, 0.25}, 1e-11);
}

TEST(Superquantile, TheWorstOffShareTheTail) {
  const Numbers shares{1.0 / 6, 1.0 / 3, 1.0 / 2};
  const auto weigh = [&](double tail, const Numbers& losses, const Numbers& draws) {
    const std::vector<int64_t> clients{4, 0, 2};
    return make_superquantile(tail)
        ->mix({.round = 1,
               .clients = clients,
               .lambda = shares,
               .draw_weights = draws,
               .losses = losses})
        .coefficients;
  };
  expect_near(weigh(0.75, {1, 3, 2}, {1, 1, 1}), {0, 4.0 / 9, 5.0 / 9}, 1e-15);
  expect_near(weigh(0.1, {1, 3, 2}, {1, 1, 1}), {0, 1, 0}, 1e-15);
  expect_near(weigh(1, {1, 3, 2}, {1, 1, 1}), shares, 1e-15);
  const Numbers draws{1.8, 0.9, 0.3};  // times the shares: 2/5, 2/5 and 1/5 of their sum
  expect_near(weigh(0.5, {1, 3, 2}, draws), {0, 0.8, 0.2}, 1e-15);
  // The first of equal losses count.
  expect_near(weigh(0.4, {1, 1, 1}, draws), {1, 0, 0}, 1e-15);
}

// w grows by delta, which follows the share of all known distances; absent clients keep theirs.
TEST(FedHeal, WeighsByDistances) {
  const auto rule = make_fedheal(0.3, 0.4, 4);
  EXPECT_EQ(rule->needs().sign_share, 0.3);
  expect_near(rule->decision(), Numbers(4, 0.25), 1e-15);
  const auto mix = [&](const Ids& ids, const Numbers& distances) {
    const Numbers any(ids.size(), 7);  // neither sizes nor draws enter
    return rule->mix({.clients = ids, .lambda = any, .draw_weights = any, .distances = distances})
        .coefficients;
  };
  // Round 1: delta = 0.4 x 1/4 and 0.4 x 3/4.
  expect_near(mix({2, 0}, {1, 3}), {0.35 / 0.9, 0.55 / 0.9}, 1e-15);
  // Round 2: client 0 is absent and keeps its distance 3: shares of 2 + 3 + 5.
  const double delta_2 = 0.6 * 0.1 + 0.4 * 0.2;
  const double w_2 = 0.35 + delta_2, w_1 = 0.25 + 0.4 * 0.5;
  expect_near(mix({1, 2}, {5, 2}), {w_1 / (w_1 + w_2), w_2 / (w_1 + w_2)}, 1e-15);
  const double all = 0.55 + w_1 + w_2 + 0.25;
  expect_near(rule->decision(), {0.55 / all, w_1 / all, w_2 / all, 0.25 / all}, 1e-15);
  // Round 3: nobody moves, of what is known only client 0's distance is left.
  const double w_3 = w_2 + 0.6 * delta_2;
  expect_near(mix({1, 2}, {0, 0}), {(w_1 + 0.12) / (w_1 + 0.12 + w_3), w_3 / (w_1 + 0.12 + w_3)},
              1e-15);
}

TEST(FedHeal, NobodyMovesAtAll) {
  const auto rule = make_fedheal(0.3, 0.4, 2);
  const Ids ids{1, 0};
  const Numbers none(2);
  expect_near(rule->mix({.clients = ids, .distances = none}).coefficients, {0.5, 0.5}, 1e-15);
}

TEST(FairRules, LossesThatAreNotFiniteAreErrors) {
  const auto afl = make_afl(0.1, false, Estimator::kNormalized, 3);
  const auto restricted = make_afl(0.1, true, Estimator::kNormalized, 3);
  const auto qfedavg = make_qfedavg(1, 1, ClientWeights::kSamples);
  const auto term = make_term(1, ClientWeights::kSamples);
  const auto superquantile = make_superquantile(0.5);
  for (Aggregator* rule :
       {afl.get(), restricted.get(), qfedavg.get(), term.get(), superquantile.get()}) {
    for (const double bad : {kNan, kInfinity, -kInfinity}) {
      expect_error<InvalidArgument>(
          [&] {
            mix_round(*rule, 1, {0, 1, 2}, {1, bad, 1});
          },
          {"participant 1", "finite", "hint: this rule cannot weigh it"});
    }
  }
  expect_near(afl->decision(), Numbers(3, 1.0 / 3), 1e-15);  // as before
  expect_error<InvalidArgument>(
      [&] {
        mix_round(*qfedavg, 1, {0, 1}, {-0.1, 1});
      },
      {"participant 0", ">= 0"});
}

}  // namespace
}  // namespace hanse
