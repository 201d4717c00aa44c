#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "hanse/base/choice.hpp"
#include "hanse/base/error.hpp"
#include "hanse/rules/aggregation/aaggff.hpp"
#include "rules/aggregation/support.hpp"
#include "support/errors.hpp"

namespace hanse {
namespace {

AaggffOptions silo_options(std::size_t k, Variant variant = Variant::kPaper,
                           Cdf cdf = Cdf::kNormal) {
  AaggffOptions options{.variant = variant};
  options.response = {.cdf = cdf, .c2 = 1.0 / static_cast<double>(k)};
  return options;
}

// Eq. (7) as printed, over the whole history; with the deviations D1 (the ridge counts twice), D2
// (no proximal centre) and D4 (p^1 = 1) of the authors' code when `reference`.
class LiteralS {
 public:
  LiteralS(std::size_t k, double alpha, double beta, bool reference)
      : p(k, reference ? 1 : 1.0 / static_cast<double>(k)),
        alpha_(reference ? alpha * (1 + beta) : alpha),
        beta_(beta),
        reference_(reference) {}

  void observe(const Numbers& r) {
    Numbers g(r.size());
    for (std::size_t i = 0; i < r.size(); ++i) g[i] = -r[i] / (1 + dot(p, r));
    history_.push_back({g, reference_ ? Numbers(r.size()) : p});
    double steep = alpha_;
    for (const auto& past : history_) steep += beta_ * dot(past.gradient, past.gradient);
    const Numbers uniform(r.size(), 1.0 / static_cast<double>(r.size()));
    p = slow_minimum([&](const Numbers& q) { return gradient(q); }, uniform, alpha_, steep);
  }

  Numbers p;

 private:
  struct Past {
    Numbers gradient;
    Numbers centre;
  };

  // sum g + alpha q + beta sum g (g.(q - p_tau))
  Numbers gradient(const Numbers& q) const {
    Numbers slope(q.size());
    for (std::size_t i = 0; i < q.size(); ++i) slope[i] = alpha_ * q[i];
    for (const auto& [g, centre] : history_) {
      const double factor = 1 + beta_ * (dot(g, q) - dot(g, centre));
      for (std::size_t i = 0; i < q.size(); ++i) slope[i] += g[i] * factor;
    }
    return slope;
  }

  double alpha_;
  double beta_;
  bool reference_;
  std::vector<Past> history_;
};

void expect_literal(const AaggffOptions& options, std::size_t k, double alpha, double beta) {
  const auto rule = make_aaggff_s(options, static_cast<int64_t>(k));
  LiteralS literal(k, alpha, beta, options.variant == Variant::kReference);
  RandomStream random(11, Purpose::kData, k);
  ResponseOptions response = options.response;
  response.falling_normal = options.variant == Variant::kReference;
  for (int64_t t = 1; t <= 25; ++t) {
    const Numbers losses = random_losses(k, random);
    const Mix mix = mix_round(*rule, t, all_clients(static_cast<int64_t>(k)), losses);
    const Numbers r = respond(response, losses, mean(losses));
    expect_near(mix.response, r, 0);
    literal.observe(r);
    expect_near(rule->decision(), literal.p, 1e-8);
    expect_near(mix.coefficients, literal.p, 1e-8);  // the new p weights the round's updates
  }
}

TEST(AaggffS, EqualsTheLiteralEquation) {
  for (const std::size_t k : {1, 2, 3, 8}) {
    const auto silos = static_cast<double>(k);
    for (const Variant variant : {Variant::kPaper, Variant::kReference, Variant::kCorrected}) {
      // alpha = 4 K L, beta = 1 / (4 L) with L = 1/K.
      expect_literal(silo_options(k, variant), k, 4, silos / 4);
    }
  }
}

TEST(AaggffS, EqualsTheLiteralEquationWithOtherConstants) {
  AaggffOptions options = silo_options(5, Variant::kPaper, Cdf::kFrechet);
  options.response.c1 = 0.5;
  options.response.c2 = 3;  // L = 3 / 1.5
  expect_literal(options, 5, 4 * 5 * 2, 1.0 / 8);
  options.alpha = 0.3;
  options.beta = 2.5;
  expect_literal(options, 5, 0.3, 2.5);
  options.variant = Variant::kReference;
  expect_literal(options, 5, 0.3, 2.5);
}

// One round from p = 1/K by hand: g = -r/(1 + mean r), no entry reaches 0.
TEST(AaggffS, FirstRoundInClosedForm) {
  const Numbers losses{2.15, 0.17, 0.41};
  const auto rule = make_aaggff_s(silo_options(3, Variant::kPaper, Cdf::kWeibull), 3);
  const Numbers r = mix_round(*rule, 1, {0, 1, 2}, losses).response;
  const double growth = 1 + mean(r);
  const double shift = 1 + 0.75 * mean(r) / growth;  // 1 - beta g.p
  // (4 I + beta g g^T) p = level - c, by the formula of Sherman and Morrison.
  Numbers g(3), c(3);
  for (std::size_t i = 0; i < 3; ++i) {
    g[i] = -r[i] / growth;
    c[i] = g[i] * shift;
  }
  const auto solve = [&](const Numbers& b) {
    const double pull = 0.75 * dot(g, b) / (4 + 0.75 * dot(g, g));
    Numbers x(3);
    for (std::size_t i = 0; i < 3; ++i) x[i] = (b[i] - pull * g[i]) / 4;
    return x;
  };
  const Numbers u = solve({1, 1, 1});
  const Numbers v = solve(c);
  const double level = (1 + 3 * mean(v)) / (3 * mean(u));
  Numbers expected(3);
  for (std::size_t i = 0; i < 3; ++i) expected[i] = level * u[i] - v[i];
  expect_near(rule->decision(), expected, 1e-15);
}

// Nine rounds of the same losses, by a solver of another kind: the paper leans to the client with
// the large loss, the reference with its falling normal distribution away from it.
TEST(AaggffS, PersistentLossesMoveWeightsByVariant) {
  const auto after_nine = [](Variant variant) {
    const auto rule = make_aaggff_s(silo_options(3, variant), 3);
    for (int64_t t = 1; t <= 9; ++t) mix_round(*rule, t, {0, 1, 2}, {2.15, 0.17, 0.41});
    return rule->decision();
  };
  expect_near(after_nine(Variant::kPaper), {0.607, 0.170, 0.222}, 6e-4);
  expect_near(after_nine(Variant::kReference), {0.225, 0.398, 0.377}, 6e-4);
}

// Theorem 5.1 on sequences made against the rule, for the published range and for a wide one.
TEST(AaggffS, RegretStaysBelowItsBound) {
  for (const std::size_t k : {2, 3, 8}) {
    for (const double c2 : {1.0 / static_cast<double>(k), 1.0}) {
      for (const auto& adversary : adversaries(k)) {
        AaggffOptions options = silo_options(k, Variant::kPaper, Cdf::kWeibull);
        options.response.c2 = c2;
        const auto rule = make_aaggff_s(options, static_cast<int64_t>(k));
        const int64_t rounds = 300;
        const auto silos = static_cast<double>(k);
        const double bound =
            2 * c2 * silos * (1 + std::log(1 + static_cast<double>(rounds) / (16 * silos)));
        EXPECT_LT(play(*rule, rounds, adversary).regret, bound) << k << " " << c2;
      }
    }
  }
}

// The bound is no empty promise: equal weights exceed it when one client is always the worst.
TEST(AaggffS, EqualWeightsWouldExceedTheBound) {
  AaggffOptions options = silo_options(3, Variant::kPaper, Cdf::kWeibull);
  options.response.c2 = 1;
  const auto rule = make_aaggff_s(options, 3);
  const Game game = play(*rule, 300, [](int64_t, const Numbers&) { return one_hot(3, 2); });
  const double bound = 2 * 3 * (1 + std::log(1 + 300.0 / 48));
  EXPECT_GT(game.regret_uniform, 2 * bound);
  EXPECT_LT(game.regret, bound);
}

TEST(AaggffS, OrderOfTheParticipantsDoesNotMatter) {
  const auto straight = make_aaggff_s(silo_options(6), 6);
  const auto shuffled = make_aaggff_s(silo_options(6), 6);
  RandomStream random(12, Purpose::kData);
  for (int64_t t = 1; t <= 10; ++t) {
    const Numbers losses = random_losses(6, random);
    const Ids order = random_clients(6, 6, random);
    Numbers permuted;
    for (const int64_t client : order) permuted.push_back(losses[at(client)]);
    const Mix a = mix_round(*straight, t, all_clients(6), losses);
    const Mix b = mix_round(*shuffled, t, order, permuted);
    expect_near(shuffled->decision(), straight->decision(), 1e-13);
    for (std::size_t i = 0; i < 6; ++i) {
      EXPECT_NEAR(b.coefficients[i], a.coefficients[at(order[i])], 1e-13);
      EXPECT_NEAR(b.response[i], a.response[at(order[i])], 1e-15);
    }
  }
}

TEST(AaggffS, NeedsEveryClient) {
  const auto rule = make_aaggff_s(silo_options(4), 4);
  EXPECT_TRUE(rule->needs().full);
  EXPECT_TRUE(rule->needs().losses);
  EXPECT_FALSE(rule->needs().norms);
  expect_error<InvalidArgument>(
      [&] {
        mix_round(*rule, 1, {0, 3, 1}, {1, 2, 3});
      },
      {"3 of 4 clients", "aggregator.kind", "sampler.kind = full"});
}

TEST(AaggffS, BadLossesChangeNothing) {
  const auto rule = make_aaggff_s(silo_options(2), 2);
  mix_round(*rule, 1, {0, 1}, {1, 2});
  const Numbers before = rule->decision();
  for (const double bad : {-1.0, std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_THROW(mix_round(*rule, 2, {0, 1}, {1, bad}), InvalidArgument);
  }
  EXPECT_EQ(rule->decision(), before);
}

TEST(AaggffS, AllLossesZeroKeepTheClientsEqual) {
  const auto rule = make_aaggff_s(silo_options(4), 4);
  for (int64_t t = 1; t <= 3; ++t) mix_round(*rule, t, all_clients(4), Numbers(4));
  expect_near(rule->decision(), Numbers(4, 0.25), 1e-15);
}

TEST(AaggffS, GoesOnAfterLoadBitForBit) {
  for (const Variant variant : {Variant::kPaper, Variant::kReference}) {
    const auto straight = make_aaggff_s(silo_options(5, variant), 5);
    RandomStream random(13, Purpose::kData);
    for (int64_t t = 1; t <= 7; ++t)
      mix_round(*straight, t, all_clients(5), random_losses(5, random));
    State state;
    straight->save(state);
    const auto resumed = make_aaggff_s(silo_options(5, variant), 5);
    resumed->load(state);
    EXPECT_EQ(resumed->decision(), straight->decision());
    for (int64_t t = 8; t <= 15; ++t) {
      const Numbers losses = random_losses(5, random);
      const Mix a = mix_round(*straight, t, all_clients(5), losses);
      EXPECT_EQ(mix_round(*resumed, t, all_clients(5), losses).coefficients, a.coefficients);
      EXPECT_EQ(resumed->decision(), straight->decision());
    }
    EXPECT_THROW(make_aaggff_s(silo_options(6), 6)->load(state), IoError);
  }
}

TEST(Variants, HaveNames) {
  EXPECT_EQ(name_of(Variant::kPaper), "paper");
  EXPECT_EQ(name_of(Variant::kReference), "reference");
  EXPECT_EQ(name_of(Variant::kCorrected), "corrected");
}

// What it needs is known before its matrices of clients^2 numbers are made, here 8 TB.
TEST(AaggffS, TellsWhatItNeedsForAnyNumberOfClients) {
  const auto rule = make_aaggff_s(silo_options(10), 1'000'000);
  EXPECT_TRUE(rule->needs().full);
  EXPECT_GE(rule->needs().matrices, 2);
}

}  // namespace
}  // namespace hanse
