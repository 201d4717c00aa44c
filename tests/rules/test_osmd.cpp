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
#include "hanse/rules/sampling/osmd.hpp"
#include "rules/osmd_reference.hpp"
#include "support/errors.hpp"

namespace hanse {
namespace {

using Variant = OsmdOptions::Variant;

struct Setting {
  OsmdOptions options;
  int64_t clients = 7;
  int64_t per_round = 3;
  bool availability = false;
  std::vector<double> initial;  // [M], empty: uniform
  int64_t rounds = 100;
};

std::string name_of(const Setting& s) {
  return "alpha " + std::to_string(s.options.alpha) + ", M " + std::to_string(s.clients) + ", K " +
         std::to_string(s.per_round) + (s.options.replacement ? "" : " without replacement") +
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
  if (sampler_->needs_foresight()) {
    sampler_->foresee(a);
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
    ASSERT_NEAR(variance_estimate(draw, feedback), loss, 1e-12 * loss);
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
          std::vector<int64_t>(static_cast<std::size_t>(setting_.per_round), client));
    }
  }
  RandomStream stream(1, Purpose::kSampling, static_cast<uint64_t>(round));
  return sampler_->draw(round, stream);
}

void Pair::compare_draw(const Draw& draw, const std::vector<int64_t>& draws) {
  const auto k = static_cast<long double>(draws.size());
  const Distribution q = slow_.q(available_);
  long double left = 1;  // mass of those not yet drawn
  for (std::size_t i = 0; i < draw.size(); ++i) {
    const auto client = static_cast<std::size_t>(draw.clients[i]);
    ASSERT_TRUE(available_[client]);
    ASSERT_NEAR(draw.probabilities[i], static_cast<double>(q[client]), 1e-12);
    const auto j = static_cast<long double>(i + 1);
    const long double weight = draw.everyone ? 1
                               : setting_.options.replacement
                                   ? static_cast<long double>(draw.counts[i]) / (k * q[client])
                                   : (left / q[client] + k - j) / k;
    ASSERT_NEAR(draw.weights[i] / static_cast<double>(weight), 1, 1e-10);
    left -= q[client];
  }
}

void Pair::compare_state() {
  const Distribution p = slow_.p();
  for (std::size_t m = 0; m < p.size(); ++m) {
    ASSERT_NEAR(sampler_->probability(static_cast<int64_t>(m)), static_cast<double>(p[m]), 1e-12);
  }
  const auto theta = sampler_->expert_weights();
  const Distribution slow = slow_.theta();
  ASSERT_EQ(theta.size(), slow.size());
  for (std::size_t e = 0; e < theta.size(); ++e) {
    ASSERT_NEAR(theta[e], static_cast<double>(slow[e]), 1e-12);
  }
}

OsmdOptions options_of(OsmdKind kind, Variant variant, double alpha) {
  return {.kind = kind, .variant = variant, .alpha = alpha, .horizon = 200};
}

using KindAndVariant = std::tuple<OsmdKind, Variant>;

std::string label(const ::testing::TestParamInfo<KindAndVariant>& row) {
  const std::vector<std::string> kinds{"fixed", "adaptive", "doubling"};
  const std::vector<std::string> variants{"paper", "reference", "corrected"};
  return kinds[static_cast<std::size_t>(std::get<0>(row.param))] + "_" +
         variants[static_cast<std::size_t>(std::get<1>(row.param))];
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

}  // namespace
}  // namespace hanse
