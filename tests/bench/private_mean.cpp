// Distributed mean estimation, the experiment of Kairouz, Liu and Steinke 2021: 100 clients have a
// vector of length 10 in 250 dimensions each, and one private round estimates their mean.
//
//   hanse-bench-private-mean [ROUNDS]
//
// A line a way: its name, epsilon, the deviation of the noise on the sum, the mean squared error of
// a coordinate over ROUNDS, its closed form sigma^2 / n^2, and the ratio of the two.
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "hanse/base/random.hpp"
#include "hanse/cli/start.hpp"
#include "hanse/comm/communicator.hpp"
#include "hanse/protocol/private_training.hpp"

namespace hanse {
namespace {

constexpr int64_t kClients = 100;
constexpr int64_t kParams = 250;
constexpr double kLength = 10;

struct Way {
  const char* name;
  const char* kind;
  Mechanism mechanism;
  AccountantKind accountant;
  std::optional<int> step = std::nullopt;
};
constexpr Way kWays[] = {
    {"discrete-gaussian", "central", Mechanism::kDiscreteGaussian, AccountantKind::kZcdp},
    {"by pld", "central", Mechanism::kDiscreteGaussian, AccountantKind::kPld},
    {"shares", "distributed", Mechanism::kDiscreteGaussian, AccountantKind::kZcdp},
    {"skellam", "central", Mechanism::kSkellam, AccountantKind::kRdp, 0},
    {"float64", "central", Mechanism::kGaussian, AccountantKind::kZcdp}};

std::vector<std::vector<float>> vectors() {
  std::vector<std::vector<float>> all;
  for (int64_t client = 0; client < kClients; ++client) {
    RandomStream stream(1, Purpose::kData, 0, static_cast<uint64_t>(client));
    std::vector<double> values(static_cast<std::size_t>(kParams));
    double squares = 0;
    for (double& value : values) {
      value = stream.normal();
      squares += value * value;
    }
    auto& row = all.emplace_back();
    for (const double value : values) {
      row.push_back(static_cast<float>(kLength * value / std::sqrt(squares)));
    }
  }
  return all;
}

void estimate_mean(const Way& way, double epsilon, int rounds, Communicator& comm) {
  PrivacyOptions options;
  options.kind = way.kind;
  options.mechanism = way.mechanism;
  options.clip = kLength;
  options.noise = std::nullopt;
  options.epsilon = epsilon;
  options.accountant = way.accountant;
  options.step.exponent = way.step;
  const PrivacyTerms terms{.attendance = Attendance::kFull,
                           .clients = kClients,
                           .per_round = kClients,
                           .mechanism = way.mechanism,
                           .n_params = kParams};
  const auto all = vectors();
  const PrivateRounds found(options, terms, 1);
  const double deviation = found.next().deviation;
  options.noise = found.multiplier();
  options.epsilon = 0;
  double squares = 0;
  for (int round = 0; round < rounds; ++round) {
    PrivateTraining privacy({.options = options,
                             .terms = terms,
                             .key = CipherKey::of_numbers(std::array{static_cast<uint64_t>(round)}),
                             .weight = [](int64_t) { return 1.0; }},
                            comm, kParams);
    UpdateSum sum(kParams, kClients, Reduction::kExact);
    privacy.opens(1, sum);
    for (int64_t client = 0; client < kClients; ++client) {
      privacy.take({client, client, 1, all[static_cast<std::size_t>(client)]}, sum);
    }
    privacy.closes(sum);
    std::vector<float> mean(static_cast<std::size_t>(kParams));
    privacy.reads(sum, mean);
    for (std::size_t i = 0; i < mean.size(); ++i) {
      double exact = 0;
      for (const auto& row : all) exact += static_cast<double>(row[i]) / kClients;
      squares += std::pow(static_cast<double>(mean[i]) - exact, 2);
    }
  }
  const double error = squares / (rounds * kParams), form = std::pow(deviation / kClients, 2);
  std::printf("%-18s %5g %9.4f %9.6f %9.6f %6.3f\n", way.name, epsilon, deviation, error, form,
              error / form);
}

}  // namespace
}  // namespace hanse

extern "C" int hanse_main(int argc, char** argv, const hanse::Start&) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 40;
  const auto comm = hanse::make_single_communicator();
  std::printf("%-18s %5s %9s %9s %9s %6s\n", "way", "eps", "sigma", "error", "form", "ratio");
  for (const auto& way : hanse::kWays) {
    for (const double epsilon : {0.75, 1.0, 2.0, 4.0, 6.0}) {
      hanse::estimate_mean(way, epsilon, rounds, *comm);
    }
  }
  return 0;
}
