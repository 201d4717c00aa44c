// What eq. (10) estimates, read off the decisions: log p moves by rd_i / (1 + rbar) times a rate.
#include <cmath>

#include <gtest/gtest.h>

#include "rules/aggregation/literal_d.hpp"
#include "rules/aggregation/support.hpp"

namespace hanse {
namespace {

constexpr int64_t kClients = 6;

// The step size of eq. (12) after t rounds, for C1 = 0 and C2 = C: L = C + 2.
double rate(double participation, int64_t t) {
  return std::sqrt(std::log(static_cast<double>(kClients)) / static_cast<double>(t + 1)) /
         (participation + 2);
}

// Sums of gradients after t rounds, relative to a client that was never drawn.
Numbers excesses(const Numbers& decision, std::size_t undrawn, double step) {
  Numbers result;
  for (const double p : decision) result.push_back(std::log(p / decision[undrawn]) / step);
  return result;
}

std::size_t outside(const Ids& a, const Ids& b) {
  std::vector<bool> drawn(at(kClients));
  for (const int64_t client : a) drawn[at(client)] = true;
  for (const int64_t client : b) drawn[at(client)] = true;
  return static_cast<std::size_t>(std::find(drawn.begin(), drawn.end(), false) - drawn.begin());
}

const Numbers kLosses{0.2, 3, 1.1, 0.7, 2.2, 0.05};

Numbers losses_of(const Ids& ids) {
  Numbers losses;
  for (const int64_t client : ids) losses.push_back(kLosses[at(client)]);
  return losses;
}

// In the first round the rule's estimate is eq. (10) on its own responses, for every subset.
TEST(DoublyRobust, IsWhatTheRuleLearnsFrom) {
  for (const int64_t m : {1, 2, 5}) {
    const double share = static_cast<double>(m) / kClients;
    for_subsets(kClients, m, [&](const Ids& ids) {
      const auto rule = make_aaggff_d(device_options(share), kClients, share);
      const Numbers w(ids.size(), 1 / share);
      const Numbers r = mix_round(*rule, 1, ids, losses_of(ids), w).response;
      Numbers rd = excesses(rule->decision(), outside(ids, {}), rate(share, 1));
      for (double& value : rd) value = mean(r) + value * (1 + mean(r));
      expect_near(rd, doubly_robust(kClients, ids, r, w, mean(r)), 1e-12);
    });
  }
}

// Over all subsets of m: biased towards the mean by (K - m) / (m (K - 1)), since rbar comes from
// the same subset.
TEST(DoublyRobust, BiasOfThePaper) {
  const Numbers r{0.02, 0.3, 0.25, 0.11, 0.9, 0.6};
  for (int64_t m = 1; m <= kClients; ++m) {
    Numbers expectation(at(kClients));
    double subsets = 0;
    for_subsets(kClients, m, [&](const Ids& ids) {
      Numbers drawn;
      for (const int64_t client : ids) drawn.push_back(r[at(client)]);
      const Numbers w(ids.size(), static_cast<double>(kClients) / static_cast<double>(m));
      const Numbers rd = doubly_robust(kClients, ids, drawn, w, mean(drawn));
      for (std::size_t i = 0; i < rd.size(); ++i) expectation[i] += rd[i];
      ++subsets;
    });
    const double pull = static_cast<double>(kClients - m) / static_cast<double>(m * (kClients - 1));
    for (std::size_t i = 0; i < r.size(); ++i) {
      EXPECT_NEAR(expectation[i] / subsets - r[i], (mean(r) - r[i]) * pull, 1e-15) << m;
    }
  }
}

// The corrected variant's second round, given the first: without bias over all subsets, since rbar
// and the mean loss are those of the first round.
TEST(DoublyRobust, CorrectedIsUnbiased) {
  const Ids first{0, 4};
  for (const int64_t m : {1, 2, 3}) {
    const double share = static_cast<double>(m) / kClients;
    const AaggffOptions options = device_options(share, Variant::kCorrected);
    Numbers expectation(at(kClients));
    double subsets = 0;
    double mean_loss = 0;
    for_subsets(kClients, m, [&](const Ids& ids) {
      const auto rule = make_aaggff_d(options, kClients, share);
      const Numbers first_losses{0.9, 1.7};
      mean_loss = mean(first_losses);
      const double rbar = mean(mix_round(*rule, 1, first, first_losses, Numbers(2, 3)).response);
      const std::size_t undrawn = outside(first, ids);
      const Numbers before = excesses(rule->decision(), undrawn, rate(share, 1));
      mix_round(*rule, 2, ids, losses_of(ids), Numbers(ids.size(), 1 / share));
      const Numbers after = excesses(rule->decision(), undrawn, rate(share, 2));
      for (std::size_t i = 0; i < after.size(); ++i) {
        expectation[i] += rbar + (after[i] - before[i]) * (1 + rbar);
      }
      ++subsets;
    });
    for (double& value : expectation) value /= subsets;
    expect_near(expectation, respond(options.response, kLosses, mean_loss), 1e-13);
  }
}

// So it is under draws with unequal probabilities: two draws with replacement, w_i = N_i / (2 q_i).
TEST(DoublyRobust, CorrectedIsUnbiasedUnderAWeightedDraw) {
  const Numbers q{0.3, 0.1, 0.2, 0.15, 0.05, 0.2};
  const double share = 2.0 / kClients;
  const AaggffOptions options = device_options(share, Variant::kCorrected);
  Numbers expectation(at(kClients));
  for (int64_t a = 0; a < kClients; ++a) {
    for (int64_t b = 0; b < kClients; ++b) {
      const auto rule = make_aaggff_d(options, kClients, share);
      const double rbar = mean(mix_round(*rule, 1, {3}, {0.8}, {6}).response);
      Ids ids{a};
      Numbers w{(a == b ? 2 : 1) / (2 * q[at(a)])};
      if (a != b) ids.push_back(b), w.push_back(1 / (2 * q[at(b)]));
      const std::size_t undrawn = outside({3}, ids);
      const Numbers before = excesses(rule->decision(), undrawn, rate(share, 1));
      mix_round(*rule, 2, ids, losses_of(ids), w);
      const Numbers after = excesses(rule->decision(), undrawn, rate(share, 2));
      for (std::size_t i = 0; i < after.size(); ++i) {
        expectation[i] += q[at(a)] * q[at(b)] * (rbar + (after[i] - before[i]) * (1 + rbar));
      }
    }
  }
  expect_near(expectation, respond(options.response, kLosses, 0.8), 1e-13);
}

}  // namespace
}  // namespace hanse
