// What one decision of a rule costs, without training.
//   hanse-bench-rules
// prints a JSON line a case. Of a fair rule: {"rule": ..., "clients": K, "participants": m,
// "rounds": n, "persistent": share of the losses' variance that stays,
// "seconds_per_decision_median": x}. Of a sampler, whose decision is the draw and what it learns
// from it: {"rule": ..., "clients": M, "participants": K, "rounds": n, "experts": E,
// "seconds_per_decision_median": x, "resident_bytes": of the whole process after the rounds}.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <numeric>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "hanse/base/clock.hpp"
#include "hanse/base/random.hpp"
#include "hanse/cli/start.hpp"
#include "hanse/rules/aggregation/aaggff.hpp"
#include "hanse/rules/sampling/learning.hpp"

namespace {

using namespace hanse;

struct Case {
  const char* rule;
  int64_t clients;
  int64_t participants;
  int64_t warm_up;  // rounds before those that are timed
  int64_t rounds;
  double persistent;  // share of the losses' variance between clients
};

std::unique_ptr<Aggregator> make_rule(const Case& c) {
  const auto clients = static_cast<double>(c.clients);
  AaggffOptions options;
  if (c.rule == std::string("aaggff-s")) {
    options.response.c2 = 1 / clients;
    return make_aaggff_s(options, c.clients);
  }
  const double participation = static_cast<double>(c.participants) / clients;
  options.response.c2 = participation;
  return make_aaggff_d(options, c.clients, participation);
}

// Falling losses with a level of the client's own, a `persistent` share of the variance. The more
// of it, the sooner the decision leaves clients out, which makes it cheaper.
double loss_of(int64_t client, int64_t round, double persistent, RandomStream& random) {
  RandomStream own(1, Purpose::kData, 0, static_cast<uint64_t>(client));
  const double level =
      std::sqrt(persistent) * own.normal() + std::sqrt(1 - persistent) * random.normal();
  return std::exp(level / 2) / std::sqrt(static_cast<double>(round));
}

double median_of(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double median_seconds(const Case& c) {
  const auto rule = make_rule(c);
  const auto n = static_cast<std::size_t>(c.participants);
  std::vector<int64_t> ids(n);
  std::iota(ids.begin(), ids.end(), int64_t{0});
  std::vector<double> losses(n);
  const std::vector<double> lambda(n, 1 / static_cast<double>(c.clients));
  const std::vector<double> weights(
      n, static_cast<double>(c.clients) / static_cast<double>(c.participants));
  std::vector<double> seconds;
  for (int64_t t = 1; t <= c.warm_up + c.rounds; ++t) {
    RandomStream random(2, Purpose::kData, static_cast<uint64_t>(t));
    for (std::size_t i = 0; i < n; ++i) {
      // One client of each of n equal blocks; everybody when n is their number.
      const int64_t block = c.clients / c.participants;
      ids[i] = static_cast<int64_t>(i) * block + random.below(block);
      losses[i] = loss_of(ids[i], t, c.persistent, random);
    }
    const double start_s = monotonic_seconds();
    rule->mix(
        {.round = t, .clients = ids, .lambda = lambda, .draw_weights = weights, .losses = losses});
    if (t > c.warm_up) seconds.push_back(monotonic_seconds() - start_s);
  }
  return median_of(seconds);
}

int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  int64_t size = 0;
  int64_t resident = 0;
  file >> size >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

// adaptive-osmd with a known bound, on feedback as unequal as the losses above. Its learning rates
// are those of 1000 rounds, the warm-up: as many experts for every number of clients.
void print_sampler(int64_t clients) {
  constexpr int64_t kPerRound = 10;
  constexpr int64_t kWarmUp = 1000;
  constexpr int64_t kRounds = 1001;
  const double lambda = 1 / static_cast<double>(clients);
  LearningOptions options;
  options.horizon = kWarmUp;
  options.bound = BoundSource::kGiven;
  options.a_max = 10 * lambda * lambda;
  const auto sampler = make_osmd_sampler(options, clients, kPerRound);
  std::vector<double> seconds;
  for (int64_t t = 1; t <= kWarmUp + kRounds; ++t) {
    RandomStream random(3, Purpose::kSampling, static_cast<uint64_t>(t));
    const double draw_s = monotonic_seconds();
    const Draw draw = sampler->draw(t, sampler->per_round(), random);
    const double drawn_s = monotonic_seconds();
    std::vector<double> a;
    for (const int64_t client : draw.clients) {
      a.push_back(lambda * lambda * loss_of(client, 1, 0.5, random));
    }
    const double observe_s = monotonic_seconds();
    sampler->observe(draw, {.a = a, .losses = {}});
    if (t > kWarmUp) seconds.push_back(monotonic_seconds() - observe_s + drawn_s - draw_s);
  }
  fmt::print(
      "{{\"rule\": \"adaptive-osmd\", \"clients\": {}, \"participants\": {}, \"rounds\": {}, "
      "\"experts\": {}, \"seconds_per_decision_median\": {:.9g}, \"resident_bytes\": {}}}\n",
      clients, kPerRound, kRounds, sampler->expert_weights().size(), median_of(seconds),
      resident_bytes());
}

}  // namespace

extern "C" int hanse_main(int, char**, const hanse::Start&) try {
  const Case cases[] = {
      {"aaggff-s", 100, 100, 20, 101, 0},     {"aaggff-s", 100, 100, 20, 101, 0.5},
      {"aaggff-s", 500, 500, 20, 31, 0},      {"aaggff-s", 500, 500, 20, 31, 0.5},
      {"aaggff-d", 1000, 5, 1000, 5001, 0.5}, {"aaggff-d", 10'000'000, 5, 1000, 5001, 0.5}};
  for (const Case& c : cases) {
    fmt::print(
        "{{\"rule\": \"{}\", \"clients\": {}, \"participants\": {}, \"rounds\": {}, "
        "\"persistent\": {}, \"seconds_per_decision_median\": {:.9g}}}\n",
        c.rule, c.clients, c.participants, c.rounds, c.persistent, median_seconds(c));
  }
  for (const int64_t clients : {10'000, 100'000, 1'000'000, 100'000'000}) print_sampler(clients);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "hanse-bench-rules: error: %s\n", error.what());
  return 2;
}
