// Renyi curves and epsilon against known numbers and against sums over all outcomes.
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/rules/privacy/loss_distribution.hpp"
#include "hanse/rules/privacy/renyi.hpp"

namespace hanse {
namespace {

RenyiCurve times(double count, RenyiCurve curve) {
  for (double& epsilon : curve) epsilon *= count;
  return curve;
}

// P(x) of the discrete Gaussian.
double mass(int64_t x, double variance) {
  double all = 0;
  for (int64_t y = -200; y <= 200; ++y) all += std::exp(-static_cast<double>(y * y) / 2 / variance);
  return std::exp(-static_cast<double>(x * x) / 2 / variance) / all;
}

// Renyi divergence of the laws p and q over [-150, 150], given by their logarithms' sources.
template <class P, class Q>
double divergence(int64_t order, P p, Q q) {
  double sum = 0;
  for (int64_t x = -150; x <= 150; ++x) {
    const auto a = static_cast<double>(order);
    if (p(x) > 0 && q(x) > 0) sum += std::exp(a * std::log(p(x)) - (a - 1) * std::log(q(x)));
  }
  return std::log(sum) / (static_cast<double>(order) - 1);
}

TEST(Renyi, OfTheDiscreteGaussianIsThatOfAllOutcomes) {
  for (const double variance : {4.0, 0.5}) {
    for (const int64_t order : {2, 8}) {
      const auto p = [&](int64_t x) { return mass(x - 2, variance); };
      const auto q = [&](int64_t x) { return mass(x, variance); };
      EXPECT_NEAR(divergence(order, p, q), discrete_gaussian_renyi(2, variance)(order), 1e-9);
    }
  }
}

TEST(Renyi, OfPoissonSampledNoiseIsThatOfAllOutcomesAndTheLargerDirection) {
  const double known[] = {.0170368632, .1298774333, 5.543912170};
  const double other[] = {.0114757, .0224111, .0423381};
  const int64_t orders[] = {2, 5, 16};
  for (int i = 0; i < 3; ++i) {
    const auto q = [](int64_t x) { return mass(x, 4); };
    const auto p = [](int64_t x) { return .9 * mass(x, 4) + .1 * mass(x - 2, 4); };
    const double bound = poisson_sampled_gaussian_renyi(.1, 2.0 * 2 / 8)(orders[i]);
    EXPECT_NEAR(bound, known[i], 1e-8);
    EXPECT_NEAR(bound, divergence(orders[i], p, q), 1e-8);
    EXPECT_NEAR(divergence(orders[i], q, p), other[i], 1e-7);
  }
}

TEST(Renyi, OfSampledGaussiansHasItsKnownNumbers) {
  const double poisson[] = {.00283623, .01372543, 1.6272023};
  const double any[] = {.00283623, .03684077, 1.66264141};
  const double replaced[] = {.05293929, 1.47855478, 13.645498};
  const int64_t orders[] = {2, 8, 32};
  for (int i = 0; i < 3; ++i) {
    EXPECT_NEAR(poisson_sampled_gaussian_renyi(.1, 1.0 / 8)(orders[i]), poisson[i], 1e-7);
    EXPECT_NEAR(poisson_sampled_renyi(.1, discrete_gaussian_renyi(1, 4))(orders[i]), any[i], 1e-7);
    EXPECT_NEAR(uniformly_sampled_renyi(.1, discrete_gaussian_renyi(2, 4))(orders[i]), replaced[i],
                1e-6);
  }
}

// By adaptive quadrature in 30 digits.
TEST(Renyi, OfSampledGaussiansIsExactBetweenWholeOrders) {
  constexpr struct {
    double rate, deviation, order, known;
  } kCases[] = {{.01, 1, 7.8, .000847566138562662244},
                {.01, .5, 1.6, .00300065073843517774},
                {.05, 1.164, 5.2, .00929756085633077929},
                {.5, 1, 4.3, 1.29996788006979483},
                {1e-6, .3, 2.5, 7.72243984553754143e-7}};
  for (const auto& one : kCases) {
    const double rho = 1 / (2 * one.deviation * one.deviation);
    const RenyiAt at = poisson_sampled_gaussian_renyi(one.rate, rho);
    EXPECT_NEAR(at(one.order) / one.known, 1, 1e-8) << one.order;
  }
  const RenyiAt at = poisson_sampled_gaussian_renyi(.1, 1.0 / 8);
  for (const double whole : {2.0, 5.0, 10.0}) {  // the mean and the sum are one
    EXPECT_NEAR(at(whole + 1e-9) / at(whole), 1, 1e-7) << whole;
  }
}

TEST(Renyi, BetweenWholeOrdersALineIsAbove) {
  const RenyiAt exact = poisson_sampled_gaussian_renyi(.1, 1.0 / 8);
  const RenyiAt line =
      between_whole_orders([&](int64_t a) { return exact(static_cast<double>(a)); });
  for (const double order : renyi_orders()) {
    if (order == std::floor(order)) {
      EXPECT_EQ(line(order), exact(order));
    } else {
      EXPECT_GT(line(order), exact(order)) << order;
    }
  }
  // Below order 2 it is the curve at 2.
  EXPECT_NEAR(line(1.5), exact(2), 1e-15);
}

TEST(Renyi, SamplingAtRateOneChangesNothingAndNeverHarms) {
  const auto whole = discrete_gaussian_renyi(1, 4);
  for (const double order : renyi_orders()) {
    EXPECT_EQ(poisson_sampled_renyi(1, whole)(order), whole(order));
    EXPECT_EQ(uniformly_sampled_renyi(1, whole)(order), whole(order));
    EXPECT_EQ(poisson_sampled_gaussian_renyi(1, 1.0 / 8)(order), whole(order));
    EXPECT_LE(poisson_sampled_renyi(.9, whole)(order), whole(order));
    EXPECT_LE(uniformly_sampled_renyi(.9, whole)(order), whole(order));
    EXPECT_LE(poisson_sampled_gaussian_renyi(.9, 1.0 / 8)(order), whole(order));
  }
}

TEST(Renyi, OfSharesIsThatOfOneGaussianWhenTheStepIsSmall) {
  EXPECT_NEAR(summed_gaussians_gap(.25, 10), 2.345, 5e-4);
  EXPECT_NEAR(summed_gaussians_gap(1, 10), 5.435e-4, 5e-8);
  EXPECT_NEAR(summed_gaussians_gap(4, 10), 7.157e-17, 5e-21);
  EXPECT_EQ(summed_gaussians_gap(.25, 1), 0);
  EXPECT_EQ(summed_gaussians_gap(1e6, 1000), 0);
  // Many shares: at most as many of the last counted term as are left.
  EXPECT_NEAR(summed_gaussians_gap(.25, 100000) / 1e5, 10 * std::exp(-4.934802), 1e-2);
  EXPECT_DOUBLE_EQ(summed_gaussians_renyi(3, 1e6, 10, 50)(8), discrete_gaussian_renyi(3, 1e7)(8));
  // The least of the three bounds: with tau large and one parameter, the last.
  const double tau = summed_gaussians_gap(.25, 10), two = 1 / std::sqrt(2.5);
  EXPECT_NEAR(summed_gaussians_renyi(1, .25, 10, 1)(2),
              std::min(two * two + tau, (two + tau) * (two + tau)), 1e-12);
}

TEST(Renyi, OfSkellamHasItsKnownNumbers) {
  EXPECT_NEAR(skellam_renyi(10, 400, 100)(2), .25140625, 1e-12);
  EXPECT_NEAR(skellam_renyi(10, 400, 100)(8), 1.00328125, 1e-12);
  EXPECT_LT(skellam_renyi(10, 400, 4)(8), skellam_renyi(10, 400, 100)(8));
}

TEST(Renyi, EpsilonHasItsKnownNumbers) {
  const auto rounds = [](double rate, double noise, double count) {
    const auto curve = renyi_curve(poisson_sampled_gaussian_renyi(rate, 1 / (2 * noise * noise)));
    return epsilon_of(times(count, curve), 1e-5).epsilon;
  };
  EXPECT_NEAR(rounds(.01, 1, 1000), 2.101365, 1e-6);  // order 7.8; 2.107753 at 8
  EXPECT_NEAR(rounds(.1, 2, 200), 3.679746, 1e-6);
  EXPECT_NEAR(rounds(1, 1, 1), 4.728507, 1e-6);
  EXPECT_EQ(epsilon_of(RenyiCurve(renyi_orders().size(), 0), 1e-5).epsilon, 0);
}

TEST(Renyi, EpsilonOfFixedSizesDoublesTheSensitivity) {
  // 100 clients, 10 a round, noise 2, 200 rounds; at the plain sensitivity it would be 8.56.
  const auto epsilon = [](double reach) {
    const auto curve = renyi_curve(uniformly_sampled_renyi(.1, discrete_gaussian_renyi(reach, 4)));
    return epsilon_of(times(200, curve), 1e-5).epsilon;
  };
  EXPECT_NEAR(epsilon(2), 20.714, 1e-3);
  EXPECT_NEAR(epsilon(1), 8.562, 1e-3);
}

TEST(Renyi, EpsilonOfZcdpIsThatOfTheBestRealOrder) {
  // Noise for a mean of 100 clients in a ball of radius 10 at epsilon 1, 2, 4, 6.
  const double deviations[] = {40.4513, 21.4911, 11.5757, 8.1399};
  const double known[] = {1, 2, 4, 6};
  for (int i = 0; i < 4; ++i) {
    const double rho = 100 / (2 * deviations[i] * deviations[i]);
    EXPECT_NEAR(epsilon_of_zcdp(rho, 1e-5).epsilon, known[i], 1e-5);
    const double integer_orders =
        epsilon_of(renyi_curve(discrete_gaussian_renyi(10, deviations[i] * deviations[i])), 1e-5)
            .epsilon;
    EXPECT_LE(epsilon_of_zcdp(rho, 1e-5).epsilon, integer_orders);
  }
  EXPECT_NEAR(epsilon_of(renyi_curve(discrete_gaussian_renyi(1, .8)), 1e-5).epsilon, 5.377728,
              1e-6);
}

double pld(const std::vector<GaussianRounds>& rounds, double delta = 1e-5) {
  return loss_distribution_epsilon(rounds, delta);
}

TEST(LossDistribution, IsJustAboveTheKnownNumbers) {
  const auto expect = [](double epsilon, double known) {
    EXPECT_GE(epsilon, known - 1e-6);
    EXPECT_LE(epsilon, known + 1e-5);
  };
  expect(pld({{1, .01, 1000}}), 1.828237);  // dp-accounting's on a grid of 2e-5
  expect(pld({{2, .1, 200}}), 3.359660);
  expect(pld({{1, 1, 1}}), 4.377178);
}

TEST(LossDistribution, OfGaussiansIsTheClosedForm) {
  // Balle and Wang 2018: delta = Phi(1/2s - eps s) - e^eps Phi(-1/2s - eps s), s the deviation.
  const auto phi = [](double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); };
  const GaussianRounds kinds[] = {{0.3, 1, 1}, {1, 1, 20}, {5, 1, 100}};
  for (const GaussianRounds& rounds : kinds) {
    const double s = rounds.deviation / std::sqrt(static_cast<double>(rounds.rounds));
    const double epsilon = pld({rounds});
    const auto delta = [&](double e) {
      return phi(1 / (2 * s) - e * s) - std::exp(e) * phi(-1 / (2 * s) - e * s);
    };
    EXPECT_LE(delta(epsilon), 1e-5 * (1 + 1e-9)) << s;
    EXPECT_GT(delta(epsilon - 1e-4 * (1 + epsilon)), 1e-5) << s;
  }
}

TEST(LossDistribution, OfSeveralKindsOfRoundsIsBetweenThem) {
  const double mixed = pld({{2, .1, 100}, {1, .1, 100}});
  EXPECT_GT(mixed, pld({{2, .1, 200}}));
  EXPECT_LT(mixed, pld({{1, .1, 200}}));
  EXPECT_NEAR(pld({{2, .1, 50}, {2, .1, 150}}), pld({{2, .1, 200}}), 1e-9);
}

// However small delta is, and however many rounds there are. dp-accounting's, on a grid of 2e-5:
// 10.35437, 6.22317 and 0.44994, as it rounds each round up.
TEST(LossDistribution, HasNoDeltaThatIsTooSmallAndNoRoundsThatAreTooMany) {
  EXPECT_NEAR(pld({{1, .01, 10'000}}, 1e-12), 10.3467, 1e-3);
  EXPECT_NEAR(pld({{2, .1, 226}}, 2e-12), 6.22275, 1e-4);
  EXPECT_NEAR(pld({{10, .001, 1'000'000}}, 1e-7), .448386, 1e-4);
}

// One round: delta = P(L > e) - e^e P'(L > e) where the loss L is monotone in the noise.
TEST(LossDistribution, OfOneSampledRoundIsTheClosedForm) {
  const auto above = [](double x) { return 0.5 * std::erfc(x / std::sqrt(2.0)); };
  for (const double rate : {.001, .1, .5}) {
    for (const double s : {.3, 1.0, 4.0}) {
      for (const double delta : {1e-4, 1e-9}) {
        const double epsilon = pld({{s, rate, 1}}, delta);
        // With the client, N(0, s) or N(1, s), beside without, N(0, s).
        const auto most = [&](double e) {
          const double y = s * s * std::log((std::expm1(e) + rate) / rate) + .5;
          return (1 - rate) * above(y / s) + rate * above((y - 1) / s) - std::exp(e) * above(y / s);
        };
        EXPECT_LE(most(epsilon), delta * (1 + 1e-9)) << rate << " " << s;
        if (epsilon > 1e-6) {
          EXPECT_GT(most(epsilon * (1 - 1e-2) - 1e-6), delta) << rate << " " << s;
        }
      }
    }
  }
}

TEST(LossDistribution, ARoughGridIsABoundToo) {
  const std::vector<GaussianRounds> rounds{{1.2, .05, 300}, {2, .02, 50}};
  const double fine = pld(rounds),
               rough = loss_distribution_epsilon(rounds, 1e-5, LossGrids::kRough);
  EXPECT_GE(rough, fine);
  EXPECT_LT(rough, fine * 1.002);
}

TEST(LossDistribution, KnowsNoBoundWithHardlyAnyNoiseAndNeedsNoneWithMuch) {
  EXPECT_TRUE(std::isinf(pld({{0x1p-10, 1, 1}})));
  EXPECT_EQ(pld({{0x1p20, 1, 1}}), 0);
  EXPECT_LT(pld({{0x1p10, .01, 1000}}, 1e-3), 1e-2);
}

}  // namespace
}  // namespace hanse
