// Speeds and links that are drawn for each client, and how long its tasks take by them.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/base/error.hpp"
#include "hanse/base/random.hpp"
#include "hanse/rules/clock/profiles.hpp"
#include "hanse/rules/clock/tasks.hpp"
#include "support/errors.hpp"

namespace hanse {
namespace {

constexpr int64_t kClients = 20000;

std::vector<double> speeds(const ClockOptions& options, std::span<const int64_t> samples,
                           uint64_t seed = 3) {
  const ClientProfiles profiles(options, samples, seed);
  std::vector<double> drawn;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    drawn.push_back(profiles.profile(static_cast<int64_t>(i)).sample_s);
  }
  return drawn;
}

std::vector<double> speeds(const std::string& distribution) {
  const std::vector<int64_t> samples(kClients, 1);
  return speeds({.sample_seconds = 1, .speed = Distribution::parse(distribution)}, samples);
}

// The mean of f of the speeds is `expected`, as far as 3 deviations of it go.
template <class F>
void expect_mean(const std::vector<double>& values, F f, double expected) {
  double sum = 0, squares = 0;
  for (const double x : values) {
    sum += f(x);
    squares += f(x) * f(x);
  }
  const double n = static_cast<double>(values.size()), mean = sum / n;
  EXPECT_NEAR(mean, expected, 3 * std::sqrt((squares / n - mean * mean) / n));
}

TEST(ClientProfiles, HaveTheMomentsOfTheirDistribution) {
  const auto same = [](double x) { return x; };
  const auto logarithm = [](double x) { return std::log(x); };
  const auto square = [](double x) { return std::log(x) * std::log(x); };
  expect_mean(speeds("uniform(1,3)"), same, 2);
  expect_mean(speeds("lognormal(1,0.6)"), logarithm, 1);
  expect_mean(speeds("lognormal(1,0.6)"), square, 1.36);
  expect_mean(speeds("halfnormal(0.5,2)"), same, 0.5 + 2 * std::sqrt(2 / std::numbers::pi));
  expect_mean(speeds("exponential(4)"), same, 4);
  expect_mean(speeds("pareto(3,2)"), same, 3);
  expect_mean(speeds("pareto(3,2)"), logarithm, std::log(2.0) + 1 / 3.0);
}

TEST(ClientProfiles, DrawSpeedDownAndUpAtFixedPlacesOfOneStream) {
  ClockOptions options{.sample_seconds = 0.5};
  options.speed = Distribution::parse("uniform(1,2)");
  options.up = LinkRate::parse("exponential(8)");
  options.latency_ms = 20;
  const std::vector<int64_t> samples(5, 1);
  const ClientProfiles profiles(options, samples, 9);
  RandomStream stream(9, Purpose::kClock, 0, 4);
  EXPECT_EQ(profiles.profile(4).sample_s, 0.5 * (1 + stream.uniform()));
  stream.seek(4);
  EXPECT_EQ(profiles.profile(4).up_bps, 1e6 * (-8 * std::log(1 - stream.uniform())));
  EXPECT_TRUE(std::isinf(profiles.profile(4).down_bps));
  EXPECT_EQ(profiles.profile(4).latency_s, 0.02);
}

std::vector<double> ranks(std::span<const double> values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  std::vector<double> rank(values.size());
  for (std::size_t k = 0; k < order.size(); ++k) rank[order[k]] = static_cast<double>(k);
  return rank;
}

double correlation(const std::vector<double>& a, const std::vector<double>& b) {
  const double n = static_cast<double>(a.size()), middle = (n - 1) / 2;
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - middle) * (b[i] - middle);
  return sum / (n * (n * n - 1) / 12);
}

TEST(ClientProfiles, CorrelateWithTheSamplesByTheKeyAndKeepTheirValues) {
  std::vector<int64_t> samples(kClients);
  std::iota(samples.begin(), samples.end(), 1);
  std::reverse(samples.begin(), samples.begin() + kClients / 2);
  const auto by_samples = ranks(std::vector<double>(samples.begin(), samples.end()));
  ClockOptions options{.speed = Distribution::parse("lognormal(1,0.6)")};
  auto own = speeds(options, samples);
  EXPECT_NEAR(correlation(ranks(own), by_samples), 0, 0.03);
  for (const double r : {-1.0, -0.5, 0.7, 1.0}) {
    options.size_correlation = r;
    auto drawn = speeds(options, samples);
    const double spearman = 6 / std::numbers::pi * std::asin(r / 2);
    const double tolerance = std::abs(r) == 1 ? 1e-12 : 0.02;
    EXPECT_NEAR(correlation(ranks(drawn), by_samples), spearman, tolerance) << r;
    std::sort(own.begin(), own.end());
    std::sort(drawn.begin(), drawn.end());
    EXPECT_EQ(drawn, own);
  }
}

TEST(ClientProfiles, EqualSamplesAreOrderedByClient) {
  const std::vector<int64_t> samples{5, 5, 2, 5};
  ClockOptions options{.size_correlation = 1};
  options.speed = Distribution::parse("uniform(1,2)");
  const auto drawn = speeds(options, samples);
  EXPECT_LT(drawn[2], drawn[0]);
  EXPECT_LT(drawn[0], drawn[1]);
  EXPECT_LT(drawn[1], drawn[3]);
}

TEST(ClientProfiles, RoundEachPhaseOfATask) {
  ClockOptions options{.backward_factor = 3};
  const std::vector<ClientProfile> rows{{0.25, 8e6, 4e6, 0.5}, {1e-9, 8e6, 4e6, 0}};
  const ClientProfiles profiles(options, rows, 1);
  const Phases phases = profiles.durations(0, 10, {1000, 2000}, 7);
  EXPECT_EQ(phases.down, 501000);
  EXPECT_EQ(phases.compute, 7500000);
  EXPECT_EQ(phases.up, 504000);
  EXPECT_EQ(phases.total(), 8505000);
  EXPECT_EQ(profiles.durations(1, 10, {0, 0}, 7).total(), 3);              // a tick each
  EXPECT_EQ(profiles.durations(2, 10, {1000, 2000}, 7).total(), 8505000);  // row 2 mod 2
}

TEST(ClientProfiles, JitterKeepsTheMeanAndIsDrawnForEachTask) {
  ClockOptions options{.sample_seconds = 1, .jitter = 0.5};
  const std::vector<int64_t> samples(3, 1);
  const ClientProfiles profiles(options, samples, 5);
  std::vector<double> factors;
  for (int64_t number = 1; number <= 20000; ++number) {
    factors.push_back(seconds_of(profiles.durations(number % 3, 100, {}, number).compute) / 100);
  }
  expect_mean(
      factors, [](double x) { return x; }, 1);
  expect_mean(
      factors, [](double x) { return std::log(x); }, -0.125);
  EXPECT_EQ(profiles.durations(1, 100, {}, 4).compute, profiles.durations(1, 100, {}, 4).compute);
  EXPECT_NE(profiles.durations(1, 100, {}, 4).compute, profiles.durations(2, 100, {}, 4).compute);
  EXPECT_EQ(profiles.durations(1, 100, {}, 0).compute, 100000000);  // 0: without
}

TEST(ClientProfiles, NameTheClientWithAnImpossibleOne) {
  const std::vector<int64_t> samples(4, 1);
  expect_error<InvalidArgument>(
      [&] {
        ClientProfiles(ClockOptions{.speed = Distribution::parse("lognormal(900,0)")}, samples, 1);
      },
      {"client 0", "sample time", "inf"});
  expect_error<InvalidArgument>(
      [&] {
        ClientProfiles({}, std::vector<ClientProfile>{{}, {1, 0, 1, 0}}, 1);
      },
      {"client 1", "download rate of 0"});
  const ClientProfiles slow({}, std::vector<ClientProfile>{{}, {1e300, 1, 1, 0}}, 1);
  expect_error<InvalidArgument>([&] { slow.durations(1, 10, {}, 1); }, {"client 1", "no duration"});
}

TEST(Balance, GivesAClientTheShareOfItsTime) {
  const std::vector<double> lambda{0.5, 0.25, 0.25};
  const std::vector<Ticks> durations{10, 20, 60};
  // Arrivals of clients in flight have the shares 0.6, 0.3 and 0.1, which 1/M T/H makes equal.
  const double h = 18;  // 3 / (1/10 + 1/20 + 1/60)
  const auto balanced = balanced_by_frequency(lambda, durations);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_DOUBLE_EQ(balanced[i], lambda[i] * static_cast<double>(durations[i]) / h);
  }
}

}  // namespace
}  // namespace hanse
