// The fast OSMD samplers against the paper's algorithms, written out.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/base/error.hpp"
#include "hanse/rules/sampling/learning.hpp"
#include "rules/sampling/osmd_reference.hpp"
#include "support/errors.hpp"

namespace hanse {
namespace {

struct Setting {
  LearningOptions options;
  int64_t clients = 7;
  int64_t per_round = 3;
  bool availability = false;
  std::vector<double> initial;  // [M], empty: uniform
  int64_t rounds = 100;
  double tolerance = 1e-12;
};

using KindAndVariant = std::tuple<OsmdKind, Variant>;

std::string name_of(OsmdKind kind, Variant variant) {
  const std::vector<std::string> kinds{"fixed", "adaptive", "doubling"};
  const std::vector<std::string> variants{"paper", "reference", "corrected"};
  return kinds[static_cast<std::size_t>(kind)] + "_" + variants[static_cast<std::size_t>(variant)];
}

std::string label(const ::testing::TestParamInfo<KindAndVariant>& row) {
  return name_of(std::get<0>(row.param), std::get<1>(row.param));
}

std::string name_of(const Setting& s) {
  return name_of(s.options.kind, s.options.variant) + ", alpha " + std::to_string(s.options.alpha) +
         ", M " + std::to_string(s.clients) + ", K " + std::to_string(s.per_round) +
         (s.options.replacement ? "" : " without replacement") +
         (s.availability ? ", some away" : "") + ", rate scale " +
         std::to_string(s.options.rate_scale);
}

// A sampler and its slow counterpart, which see the same rounds.
class Pair {
 public:
  explicit Pair(const Setting& setting)
      : setting_(setting),
        sampler_(make_osmd_sampler(setting.options, setting.clients, setting.per_round,
                                   setting.initial)),
        slow_(setting.options, setting.clients, setting.per_round, setting.initial),
        available_(static_cast<std::size_t>(setting.clients), true),
        stream_(5, Purpose::kData, static_cast<uint64_t>(setting.clients)) {}

  void run() {
    for (int64_t round = 1; round <= setting_.rounds && !::testing::Test::HasFatalFailure();
         ++round) {
      play(round);
    }
  }
  const OsmdReference& slow() const { return slow_; }

 private:
  void play(int64_t round);
  void change_availability();
  std::vector<double> gradients();
  Draw draw(int64_t round);
  void compare_draw(const Draw& draw, const std::vector<int64_t>& draws);
  void compare_state();

  Setting setting_;
  std::unique_ptr<ClientSampler> sampler_;
  OsmdReference slow_;
  std::vector<bool> available_;
  RandomStream stream_;
};

void Pair::play(int64_t round) {
  if (setting_.availability) change_availability();
  const std::vector<double> a = gradients();
  if (sampler_->needs_all_clients()) {
    sampler_->observe_all(a);
    slow_.set_bound(*std::max_element(a.begin(), a.end()));
  }
  const Draw draw = this->draw(round);
  std::vector<int64_t> draws;
  std::vector<double> feedback;
  for (std::size_t i = 0; i < draw.size(); ++i) {
    draws.insert(draws.end(), static_cast<std::size_t>(draw.counts[i]), draw.clients[i]);
    feedback.push_back(a[static_cast<std::size_t>(draw.clients[i])]);
  }
  compare_draw(draw, draws);
  if (draw.size() > 0 && !draw.everyone) {
    const auto loss = static_cast<double>(slow_.loss(draws, a, available_));
    ASSERT_NEAR(variance_estimate(draw, feedback), loss, 10 * setting_.tolerance * loss);
  }
  sampler_->observe(draw, {.a = feedback, .losses = {}});
  slow_.observe(draws, a, available_);
  compare_state();
}

// In some rounds many are away, in some all, in some nobody.
void Pair::change_availability() {
  const double share = std::min(1.0, 1.5 * stream_.uniform());
  std::vector<int64_t> changed;
  for (int64_t client = 0; client < setting_.clients; ++client) {
    const bool there = stream_.uniform() < share;
    if (there != available_[static_cast<std::size_t>(client)]) changed.push_back(client);
    available_[static_cast<std::size_t>(client)] = there;
  }
  sampler_->toggle(changed);
}

// a_m of all clients: over four orders of magnitude, and sometimes 0.
std::vector<double> Pair::gradients() {
  std::vector<double> a;
  for (int64_t client = 0; client < setting_.clients; ++client) {
    RandomStream own(6, Purpose::kData, 0, static_cast<uint64_t>(client));
    const double lambda = std::exp(2 * own.normal()) / static_cast<double>(setting_.clients);
    a.push_back(stream_.uniform() < 0.05 ? 0 : lambda * lambda * std::exp(stream_.normal()));
  }
  return a;
}

// Every fifth round one client is drawn K times, where the sampler can do so.
Draw Pair::draw(int64_t round) {
  const auto there = std::count(available_.begin(), available_.end(), true);
  const bool choice = there == setting_.clients || there > setting_.per_round;
  if (round % 5 == 0 && choice && setting_.options.replacement) {
    int64_t client = stream_.below(setting_.clients);
    while (!available_[static_cast<std::size_t>(client)]) client = (client + 1) % setting_.clients;
    if (slow_.p()[static_cast<std::size_t>(client)] > 0) {
      return sampler_->impose(
          sampler_->per_round(),
          std::vector<int64_t>(static_cast<std::size_t>(setting_.per_round), client));
    }
  }
  RandomStream stream(1, Purpose::kSampling, static_cast<uint64_t>(round));
  return sampler_->draw(round, sampler_->per_round(), stream);
}

void Pair::compare_draw(const Draw& draw, const std::vector<int64_t>& draws) {
  const auto k = static_cast<long double>(draws.size());
  const Distribution q = slow_.q(available_);
  long double left = 1;  // mass of those not yet drawn
  for (std::size_t i = 0; i < draw.size(); ++i) {
    const auto client = static_cast<std::size_t>(draw.clients[i]);
    ASSERT_TRUE(available_[client]);
    ASSERT_NEAR(draw.probabilities[i], static_cast<double>(q[client]), setting_.tolerance);
    const auto j = static_cast<long double>(i + 1);
    const long double weight = draw.everyone ? 1
                               : setting_.options.replacement
                                   ? static_cast<long double>(draw.counts[i]) / (k * q[client])
                                   : (left / q[client] + k - j) / k;
    ASSERT_NEAR(draw.weights[i] / static_cast<double>(weight), 1, 100 * setting_.tolerance);
    left -= q[client];
  }
}

void Pair::compare_state() {
  const Distribution p = slow_.p();
  for (std::size_t m = 0; m < p.size(); ++m) {
    ASSERT_NEAR(sampler_->probability(static_cast<int64_t>(m)), static_cast<double>(p[m]),
                setting_.tolerance);
  }
  const auto theta = sampler_->expert_weights();
  const Distribution slow = slow_.theta();
  ASSERT_EQ(theta.size(), slow.size());
  for (std::size_t e = 0; e < theta.size(); ++e) {
    ASSERT_NEAR(theta[e], static_cast<double>(slow[e]), setting_.tolerance);
  }
}

LearningOptions options_of(OsmdKind kind, Variant variant, double alpha) {
  return {.kind = kind, .variant = variant, .alpha = alpha, .horizon = 200};
}

class OsmdAgreement : public ::testing::TestWithParam<KindAndVariant> {};

TEST_P(OsmdAgreement, WithThePrintedAlgorithms) {
  const auto [kind, variant] = GetParam();
  for (const auto& [clients, per_round, rounds] :
       std::vector<std::tuple<int64_t, int64_t, int64_t>>{{1, 1, 10},
                                                          {2, 1, 60},
                                                          {2, 2, 60},
                                                          {7, 3, 200},
                                                          {7, 7, 100},
                                                          {50, 1, 100},
                                                          {50, 12, 70},
                                                          {50, 50, 40},
                                                          {300, 10, 40}}) {
    for (const double alpha : {0.01, 0.4, 1.0}) {
      for (const int mask : {0, 1, 2, 3}) {
        Setting setting{options_of(kind, variant, alpha), clients, per_round};
        setting.options.replacement = mask % 2 == 0;
        setting.availability = mask / 2 == 1;
        setting.rounds = rounds;
        setting.options.rate_scale = alpha == 0.4 ? 30 : 1;
        SCOPED_TRACE(name_of(setting));
        Pair(setting).run();
        if (HasFatalFailure()) return;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, OsmdAgreement,
                         ::testing::Combine(::testing::Values(OsmdKind::kFixed, OsmdKind::kAdaptive,
                                                              OsmdKind::kDoubling),
                                            ::testing::Values(Variant::kPaper, Variant::kReference,
                                                              Variant::kCorrected)),
                         label);

void expect_agreement(const Setting& setting, long double least_exponent = 0) {
  SCOPED_TRACE(name_of(setting));
  if (::testing::Test::HasFatalFailure()) return;
  Pair pair(setting);
  pair.run();
  EXPECT_GE(pair.slow().highest_exponent(), least_exponent);
}

constexpr OsmdKind kKinds[] = {OsmdKind::kFixed, OsmdKind::kAdaptive, OsmdKind::kDoubling};
constexpr Variant kVariants[] = {Variant::kPaper, Variant::kReference, Variant::kCorrected};

// In the authors' variant the weights of all experts underflow, too.
TEST(Osmd, ExponentsOfHundredsAndThousands) {
  for (const OsmdKind kind : kKinds) {
    for (const Variant variant : kVariants) {
      for (const int64_t clients : {2, 7, 50}) {
        Setting setting{options_of(kind, variant, 0.1), clients, 2};
        setting.rounds = 120;
        setting.options.rate_scale = 1e6;
        setting.availability = clients == 7;
        setting.tolerance = 1e-9;  // an exponent of 1e6 is rounded to 1e-10
        expect_agreement(setting, 700);
      }
    }
  }
}

// More draws than clients: N_m far above 1.
TEST(Osmd, ManyDrawsOfFewClients) {
  for (const Variant variant : kVariants) {
    for (const int64_t clients : {1, 2, 7}) {
      Setting setting{options_of(OsmdKind::kAdaptive, variant, 0.05), clients, 40};
      setting.options.rate_scale = 1000;
      expect_agreement(setting);
    }
  }
}

TEST(Osmd, ThousandsOfRounds) {
  for (const OsmdKind kind : kKinds) {
    Setting setting{options_of(kind, Variant::kPaper, 0.4), 13, 4};
    setting.options.horizon = 3000;
    setting.options.rate_scale = 25;
    setting.rounds = 3000;
    setting.availability = true;
    expect_agreement(setting);
  }
}

// Alike at some clients, far below the floor at others, zero at a few.
std::vector<double> uneven_distribution(int64_t clients, double decay) {
  std::vector<double> p;
  for (int64_t m = 0; m < clients; ++m) {
    p.push_back(m % 5 == 2 ? 0 : std::pow(decay, static_cast<double>(m / 3)));
  }
  const double sum = std::accumulate(p.begin(), p.end(), 0.0);
  for (double& x : p) x /= sum;
  return p;
}

TEST(Osmd, InitialDistributionsEvenBelowTheFloor) {
  for (const OsmdKind kind : kKinds) {
    for (const double decay : {1.0, 0.7, 0.01}) {
      for (const int64_t clients : {2, 7, 50}) {
        for (const bool replacement : {true, false}) {
          Setting setting{options_of(kind, Variant::kPaper, 0.4), clients, 2};
          setting.options.replacement = replacement;
          setting.initial = uneven_distribution(clients, decay);
          setting.rounds = 40;
          expect_agreement(setting);
          setting.availability = decay == 1;
          expect_agreement(setting);
        }
      }
    }
  }
}

TEST(Osmd, BoundsGivenAndRunningAndRatesGiven) {
  for (const OsmdKind kind : kKinds) {
    for (const BoundSource bound : {BoundSource::kGiven, BoundSource::kRunning}) {
      Setting setting{options_of(kind, Variant::kPaper, 0.3), 7, 3};
      setting.options.bound = bound;
      setting.options.a_max = bound == BoundSource::kGiven ? 0.01 : 0;
      if (bound == BoundSource::kGiven) setting.options.restart = Restart::kUniform;
      expect_agreement(setting);
      setting.options.gamma = 2;
      setting.options.eta = 1e-3;
      expect_agreement(setting);
    }
  }
}

TEST(Osmd, WithoutAnyGradientNothingIsLearnt) {
  for (const BoundSource bound : {BoundSource::kFirstRound, BoundSource::kRunning}) {
    LearningOptions options = options_of(OsmdKind::kAdaptive, Variant::kPaper, 0.4);
    options.bound = bound;
    const auto sampler = make_osmd_sampler(options, 5, 2);
    const auto theta = sampler->expert_weights();
    EXPECT_EQ(sampler->needs_all_clients(), bound == BoundSource::kFirstRound);
    sampler->observe_all(std::vector<double>(5));
    EXPECT_FALSE(sampler->needs_all_clients());
    sampler->observe(sampler->impose(sampler->per_round(), std::vector<int64_t>{3, 1}),
                     {.a = std::vector<double>(2), .losses = {}});
    EXPECT_EQ(sampler->expert_weights(), theta);
    for (int64_t client = 0; client < 5; ++client) {
      EXPECT_NEAR(sampler->probability(client), 0.2, 1e-15);
    }
  }
}

// By hand: M = 100, alpha = 0.4, K = 5, T = 1000, A = 2:
//   log(M/alpha)/log M = 5.521461/4.605170 = 1.198970, (1 + 4 * 1.198970 * 999) = 4792.0835,
//   log2 = 12.226463, E = ceil(6.113231) + 1 = 8;
//   eta_1 = 5 * 0.064/(1e6 * 2) sqrt(2 * 4.605170/1000) = 1.6e-7 * 0.095970519 = 1.535528e-8;
//   gamma = 0.004 sqrt(40/2000) = 5.656854e-4; corrected 5 * 0.16/(1e4 * 2) sqrt(0.008).
TEST(OsmdRates, OfThePaperByHand) {
  LearningOptions options = options_of(OsmdKind::kAdaptive, Variant::kPaper, 0.4);
  const OsmdRates paper = osmd_rates(options, 100, 5, 1000, 2);
  ASSERT_EQ(paper.eta.size(), 8U);
  EXPECT_NEAR(paper.eta[0], 1.535528e-8, 1e-14);
  EXPECT_EQ(paper.eta[7], 128 * paper.eta[0]);
  EXPECT_NEAR(paper.gamma, 5.656854e-4, 1e-10);
  options.variant = Variant::kReference;
  const OsmdRates reference = osmd_rates(options, 100, 5, 1000, 2);
  EXPECT_NEAR(reference.eta[0], 2.5 * paper.eta[0], 1e-20);
  EXPECT_EQ(reference.gamma, paper.gamma);
  options.variant = Variant::kCorrected;
  const OsmdRates corrected = osmd_rates(options, 100, 5, 1000, 2);
  EXPECT_EQ(corrected.eta, paper.eta);
  EXPECT_NEAR(corrected.gamma, 3.577709e-6, 1e-12);
  options.kind = OsmdKind::kFixed;
  EXPECT_EQ(osmd_rates(options, 100, 5, 1000, 2).eta, std::vector<double>{paper.eta[0]});
  options.variation = 3;  // eq. 20: (2 * 4.605170 + 4 * 3 * 5.521461)/1000 = 0.0754679 = 0.274714^2
  EXPECT_NEAR(osmd_rates(options, 100, 5, 1000, 2).eta[0], 1.6e-7 * 0.2747142, 1e-14);
  options.eta = 0;
  EXPECT_EQ(osmd_rates(options, 100, 5, 1000, 2).eta, std::vector<double>{0});
}

// eqs. 27 and 28 for M = 4, alpha = 1, K = 1, A = 1: 2^(e - b/2 - 1/2) sqrt(2 log 4)/64 and
// E_b = ceil(log2(4 * 2^(b-1) - 3)/2) + 1.
TEST(OsmdRates, OfTheDoublingBlocksByHand) {
  const LearningOptions options = options_of(OsmdKind::kDoubling, Variant::kPaper, 1);
  const std::vector<std::size_t> experts{1, 3, 3, 4, 4, 5};
  for (int block = 1; block <= 6; ++block) {
    const OsmdRates rates = osmd_rates(options, 4, 1, int64_t{1} << (block - 1), 1);
    ASSERT_EQ(rates.eta.size(), experts[static_cast<std::size_t>(block - 1)]);
    for (std::size_t e = 1; e <= rates.eta.size(); ++e) {
      const double expected =
          std::exp2(static_cast<double>(e) - block / 2.0 - 0.5) * 1.6651092223153954 / 64;
      EXPECT_NEAR(rates.eta[e - 1], expected, 1e-15);
    }
    EXPECT_NEAR(rates.gamma, std::sqrt(8 / std::exp2(block - 1)) / 4, 1e-15);
  }
}

TEST(OsmdRates, ExpertsGrowWithTheLogarithmOfTheHorizon) {
  EXPECT_EQ(osmd_experts(0.4, 1, 1000), 1);  // log M = 0: nothing to choose
  EXPECT_EQ(osmd_experts(0.4, 100, 1), 1);
  EXPECT_EQ(osmd_experts(1, 100, 2), 3);      // ceil(log2(5)/2) + 1
  EXPECT_EQ(osmd_experts(1, 100, 64), 5);     // log2(253) = 7.98
  EXPECT_EQ(osmd_experts(1, 100, 65), 6);     // log2(257) = 8.006
  EXPECT_EQ(osmd_experts(0.01, 100, 33), 6);  // log2(1 + 8 * 32) = 8.006
}

// The weights of the experts after ten rounds in which every a, and A_max, has the factor `unit`.
std::vector<double> weights_in(double unit, Variant variant) {
  LearningOptions options = options_of(OsmdKind::kAdaptive, variant, 0.4);
  options.bound = BoundSource::kGiven;
  options.a_max = 0.5 * unit;
  const auto sampler = make_osmd_sampler(options, 6, 2);
  for (int64_t round = 0; round < 10; ++round) {
    const Draw draw =
        sampler->impose(sampler->per_round(), std::vector<int64_t>{round % 6, round % 4});
    std::vector<double> a;
    for (const int64_t client : draw.clients) {
      a.push_back(unit * 0.1 * static_cast<double>(client % 5));
    }
    sampler->observe(draw, {.a = a, .losses = {}});
  }
  return sampler->expert_weights();
}

TEST(OsmdRates, OnlyTheCorrectedGammaIgnoresTheUnitOfTheLoss) {
  const auto corrected = weights_in(1, Variant::kCorrected);
  const auto rescaled = weights_in(1000, Variant::kCorrected);
  const auto paper = weights_in(1, Variant::kPaper);
  const auto paper_rescaled = weights_in(1000, Variant::kPaper);
  for (std::size_t e = 0; e < corrected.size(); ++e) {
    EXPECT_NEAR(corrected[e], rescaled[e], 1e-13);
  }
  EXPECT_GT(std::abs(paper[0] - paper_rescaled[0]), 1e-3);
}

}  // namespace
}  // namespace hanse
