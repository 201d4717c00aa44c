// What clients count in asynchronous rounds in the long run: by Monte Carlo over seeds, without any
// training.
#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/base/random.hpp"
#include "hanse/protocol/turnout.hpp"
#include "hanse/rules/sampling/basic.hpp"
#include "hanse/rules/sampling/learning.hpp"

namespace hanse {
namespace {

constexpr int64_t kClients = 10;
constexpr int64_t kVersions = 3000;
constexpr uint64_t kSeeds = 12;
const std::vector<double> kSamples{4, 8, 12, 16, 20, 4, 8, 12, 16, 20};

using Shares = std::array<double, kClients>;
using MakeSampler = std::function<std::unique_ptr<ClientSampler>(int64_t)>;
using MakeOnLine = std::function<std::unique_ptr<OnLine>(uint64_t seed)>;

struct Setting {
  std::string name;
  AsyncOptions options;
  MakeSampler sampler;
  double slow = 4;  // times as long for half of the clients
  MakeOnLine on_line = [](uint64_t) { return make_always_on_line(kClients); };
  bool balanced = false;
};

// The mean weight of each client in a version, where it counts w_i alone (lambda_i = 1).
Shares shares_of(const Setting& setting, bool unbiased, uint64_t seed) {
  std::vector<double> seconds;
  for (int64_t i = 0; i < kClients; ++i) {
    seconds.push_back((i < 5 ? 1 : setting.slow) + 1e-3 * static_cast<double>(i));
  }
  const GivenTimes times(seconds);
  const auto on_line = setting.on_line(seed);
  const Tasks tasks(times, *on_line, LostWork(), LeaveRule::kFinish);
  const auto sampler = setting.sampler(setting.options.concurrency);
  BufferedWeights weights{.unbiased = unbiased};
  if (setting.balanced) {
    weights.shares =
        balanced_by_frequency(std::vector<double>(kClients, 1), times.of_all(kClients));
  }
  const auto turnout = make_buffered_turnout(setting.options, 10, tasks, *on_line, weights);
  const DrawClients draw{
      .draw_round = nullptr,
      .dispatch = [&](int64_t call, int64_t n, std::span<const int64_t> changes) {
        sampler->toggle(changes);
        RandomStream stream(seed, Purpose::kSampling, static_cast<uint64_t>(call));
        return DrawnClients{sampler->draw(call, n, stream), sampler->available().size()};
      }};
  Shares shares{};
  for (int64_t version = 1; version <= kVersions; ++version) {
    const RoundTurnout members = turnout->next(version, draw);
    std::vector<double> a;
    for (std::size_t i = 0; i < members.draw.size(); ++i) {
      const auto client = static_cast<std::size_t>(members.draw.clients[i]);
      shares[client] += members.draw.weights[i] / kVersions;
      a.push_back(kSamples[client] * kSamples[client]);
    }
    sampler->observe(members.draw, {.a = a, .losses = a});
  }
  return shares;
}

struct Estimate {
  double mean = 0;
  double error = 0;  // of the mean, one standard deviation
};

std::array<Estimate, kClients> estimate(const Setting& setting, bool unbiased) {
  std::array<Estimate, kClients> found;
  std::vector<Shares> all;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) all.push_back(shares_of(setting, unbiased, seed));
  for (std::size_t i = 0; i < kClients; ++i) {
    double sum = 0, squares = 0;
    for (const Shares& one : all) sum += one[i];
    found[i].mean = sum / kSeeds;
    for (const Shares& one : all) squares += std::pow(one[i] - found[i].mean, 2);
    found[i].error = std::sqrt(squares / (kSeeds - 1) / kSeeds);
  }
  return found;
}

AsyncOptions fedbuff(int64_t concurrency, int64_t buffer, NextClient next = NextClient::kDraw) {
  return {.kind = "fedbuff", .concurrency = concurrency, .buffer = buffer, .next = next};
}

std::vector<Setting> settings() {
  const MakeSampler uniform = [](int64_t k) { return make_uniform_sampler(kClients, k); };
  const MakeSampler weighted = [](int64_t k) { return make_weighted_sampler(kSamples, k, false); };
  const MakeSampler osmd = [](int64_t k) {
    return make_osmd_sampler(
        {.replacement = false, .bound = BoundSource::kGiven, .a_max = 400, .horizon = kVersions},
        kClients, k);
  };
  const MakeOnLine comes_and_goes = [](uint64_t seed) {
    return make_markov_on_line(kClients, 20, 8, seed);
  };
  return {{"uniform, few in flight", fedbuff(4, 2), uniform},
          {"uniform", fedbuff(9, 2), uniform},
          {"uniform, all in flight", fedbuff(10, 3), uniform},
          {"weighted, equal times", fedbuff(9, 2), weighted, 1},
          {"weighted", fedbuff(9, 2), weighted},
          {"osmd", fedbuff(9, 2), osmd},
          {"uniform, who come and go", fedbuff(6, 2), uniform, 4, comes_and_goes}};
}

TEST(AsyncShares, AreThoseOfAllClientsWithTheUnbiasedEstimator) {
  for (const Setting& setting : settings()) {
    const auto found = estimate(setting, true);
    for (std::size_t i = 0; i < kClients; ++i) {
      EXPECT_NEAR(found[i].mean, 1, 5 * found[i].error + 0.02) << setting.name << ", client " << i;
      EXPECT_LT(found[i].error, 0.05) << setting.name;
    }
  }
}

// Without factors for the times away they are not, so that the test above can tell.
TEST(AsyncShares, AreThoseOfTheTimesWithoutIt) {
  const auto found = estimate(settings()[1], false);
  for (std::size_t i = 0; i < kClients; ++i) {
    EXPECT_NEAR(found[i].mean, i < 5 ? 1.55 : 0.45, 0.05) << i;
  }
}

// A client that begins again and again has the share of its rate, which its time over the harmonic
// mean balances; the weights of one draw do not stay.
TEST(AsyncShares, AreBalancedByFrequencyWhereAllStayInFlight) {
  Setting setting{"same", fedbuff(10, 3, NextClient::kSame),
                  [](int64_t k) { return make_weighted_sampler(kSamples, k, false); }};
  for (const bool balanced : {true, false}) {
    setting.balanced = balanced;
    const Shares found = shares_of(setting, true, 1);
    for (std::size_t i = 0; i < kClients; ++i) {
      EXPECT_NEAR(found[i], balanced ? 1 : i < 5 ? 1.6 : 0.4, 0.01) << i << balanced;
    }
  }
}

}  // namespace
}  // namespace hanse
