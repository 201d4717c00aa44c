// Rounds with client-level privacy.
#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include "correlated_sums.hpp"
#include "hanse/base/wrapping.hpp"
#include "hanse/protocol/private_training.hpp"
#include "hanse/rules/privacy/correlation.hpp"
#include "hanse/rules/sampling/basic.hpp"
#include "hanse/sums/sum_stage.hpp"
#include "protocol/resume.hpp"
#include "protocol/tiny_training.hpp"

namespace hanse {
namespace {

constexpr int64_t kDrawn = 2;
constexpr int64_t kRounds = 20;  // that are planned

struct PrivateCase {
  PrivacyOptions options;
  Attendance attendance = Attendance::kUniform;
  double weight = 1;  // of every update
};

PrivacyOptions central(double noise, double clip = 1) {
  PrivacyOptions options;
  options.kind = "central";
  options.noise = noise;
  options.clip = clip;
  return options;
}

std::unique_ptr<ClientSampler> sampler_of(Attendance attendance) {
  switch (attendance) {
    case Attendance::kFull: return make_full_sampler(kClients);
    case Attendance::kUniform: return make_uniform_sampler(kClients, kDrawn);
    case Attendance::kCyclic: return make_cyclic_sampler(kClients, kDrawn, kSeed);
    case Attendance::kPoisson: return make_poisson_sampler(kClients, kDrawn, kSeed);
  }
  return nullptr;
}

TinyJob job_of(const PrivateCase& c) {
  TinyJob job{.fedavg = {ClientWeights::kUniform, Estimator::kUnbiased}};
  job.own_sampler = [attendance = c.attendance] { return sampler_of(attendance); };
  job.privacy = [c](Communicator& comm) {
    const PrivacyTerms terms{.attendance = c.attendance,
                             .clients = kClients,
                             .per_round = c.attendance == Attendance::kFull ? kClients : kDrawn,
                             .n_params = kParams};
    return std::make_unique<PrivateTraining>(
        PrivacySetup{.options = c.options,
                     .terms = terms,
                     .rounds = kRounds,
                     .seed = 5,
                     .weight = [weight = c.weight](int64_t) { return weight; }},
        comm, kParams);
  };
  return job;
}

TEST(PrivateTraining, WithoutNoiseAndWithinTheClipARoundIsTheUniformMean) {
  for (const auto attendance : {Attendance::kFull, Attendance::kUniform}) {
    TinyJob job = job_of({central(0, 1e4), attendance});
    const auto rounded = train_threads(1, job, 1);
    job.privacy = {};
    const auto mean = train_threads(1, job, 1);
    for (std::size_t i = 0; i < mean.size(); ++i) {
      EXPECT_NEAR(rounded[i], mean[i], 1e-7) << i;  // a step of 2^-44 for each, and float32
    }
  }
}

std::vector<PrivateCase> every_mechanism() {
  std::vector<PrivateCase> all{{central(1)}, {central(1), Attendance::kPoisson}};
  all.push_back({central(1)});
  all.back().options.mechanism = Mechanism::kGaussian;
  all.push_back({central(1)});
  all.back().options.mechanism = Mechanism::kSkellam;
  all.back().options.step.exponent = -5;
  all.push_back({central(1), Attendance::kPoisson});
  all.back().options.kind = "distributed";
  all.push_back({central(1), Attendance::kFull});
  all.back().options.clip_kind = ClipKind::kAdaptive;
  for (const auto correlation :
       {Correlation::kTree, Correlation::kToeplitz, Correlation::kBanded}) {
    all.push_back({central(0.5), Attendance::kCyclic});
    all.back().options.correlation = correlation;
    all.back().options.bands = 3;
  }
  return all;
}

TEST(PrivateTraining, EveryMechanismHasTheSameBitsOnAnyRanksAndGoesOn) {
  for (const PrivateCase& c : every_mechanism()) {
    const TinyJob job = job_of(c);
    const auto expected = train_threads(1, job, 9);
    for (int ranks = 2; ranks <= 4; ++ranks) EXPECT_EQ(train_threads(ranks, job, 9), expected);
    const Kept kept = train_and_keep<TinyTraining>(3, job, 5);
    EXPECT_EQ(go_on<TinyTraining>(2, job, kept, 4), expected);
    EXPECT_EQ(go_on<TinyTraining>(1, job, kept, 4), expected);
  }
}

TEST(PrivateTraining, AStateOfOneRankHasWhatARunOfSeveralNeeds) {
  for (const PrivateCase& c : every_mechanism()) {
    const TinyJob job = job_of(c);
    const Kept kept = train_and_keep<TinyTraining>(1, job, 5);
    EXPECT_EQ(go_on<TinyTraining>(4, job, kept, 4), train_threads(1, job, 9));
  }
}

// Keeps what it sees of the sum.
class Look final : public SumStage {
 public:
  using Integers = std::vector<int64_t>;
  struct Seen {
    Integers begin, on_rank, on_server;
  };
  explicit Look(Seen& seen) : seen_(seen) {}
  void begin(const SummedEntries& sum) override { keep(sum, seen_.begin); }
  void on_rank(const SummedEntries& sum) override { keep(sum, seen_.on_rank); }
  void on_server(const SummedEntries& sum) override { keep(sum, seen_.on_server); }

 private:
  static void keep(const SummedEntries& sum, Integers& seen) {
    seen.assign(sum.integers.begin(), sum.integers.end());
  }
  Seen& seen_;
};

Look::Seen seen_by(const PrivateCase& c, int64_t rounds = 1) {
  Look::Seen seen;
  TinyJob job = job_of(c);
  job.sum_stage = [&](Communicator&) { return std::make_unique<Look>(seen); };
  train_threads(1, job, rounds);
  return seen;
}

// One rank adds up everything: still the noise comes first.
TEST(PrivateTraining, NothingEverSeesThePlainTotalOnOneRank) {
  PrivateCase noised{central(1)}, plain{central(0)};
  noised.options.step.exponent = plain.options.step.exponent = -20;
  const auto with = seen_by(noised), without = seen_by(plain);
  EXPECT_EQ(without.begin, Look::Integers(kParams, 0));
  for (std::size_t i = 0; i < kParams; ++i) {
    EXPECT_NE(with.begin[i], 0);
    EXPECT_EQ(with.on_rank[i], wrapping_sum(with.begin[i], without.on_rank[i]));
    EXPECT_NE(with.on_rank[i], without.on_rank[i]);
  }
  EXPECT_EQ(with.on_server, with.on_rank);
}

TEST(PrivateTraining, CorrelatedSumsKeepThePlainTotalBehindAMask) {
  const auto numerators = correlation_numerators(3);
  const std::vector<int64_t> update{1, -2, 3};
  run_threads(2, [&](Communicator& comm) {
    CorrelatedSums sums(numerators, 9, comm, 3);
    sums.begin(1);
    sums.add(update);
    std::vector<int64_t> y(3);
    sums.encode(1, y);
    comm.reduce(std::span(y), ReduceOp::kSum, 0);
    sums.collect();
    if (comm.rank() != 0) return;
    for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(y[i], 2 * numerators[0] * update[i]);
    State state;
    sums.save(state);
    const auto& kept = state.get<int64_t>("sums");
    ASSERT_EQ(kept.size(), 3);
    for (std::size_t i = 0; i < 3; ++i) EXPECT_GT(std::abs(kept[i] - 2 * update[i]), 1000);
  });
}

// What the model moves by, [rounds][P], when updates count nothing.
std::vector<std::vector<double>> noise_alone(PrivateCase c, int64_t rounds, double server_lr = 1) {
  c.weight = 0;
  TinyJob job = job_of(c);
  job.server.lr = server_lr;
  std::vector<std::vector<double>> moved;
  run_threads(1, [&](Communicator& comm) {
    TinyTraining training(comm, job);
    std::vector<float> before(kParams);
    for (int64_t round = 0; round < rounds; ++round) {
      std::ranges::copy(training.trainer->model_row(), before.begin());
      training.trainer->round(false);
      auto& step = moved.emplace_back();
      for (std::size_t i = 0; i < kParams; ++i) {
        step.push_back(static_cast<double>(training.trainer->model_row()[i]) -
                       static_cast<double>(before[i]));
      }
    }
  });
  return moved;
}

double variance_of(const std::vector<std::vector<double>>& steps) {
  double squares = 0;
  for (const auto& step : steps) {
    for (const double entry : step) squares += entry * entry;
  }
  return squares / static_cast<double>(steps.size() * steps[0].size());
}

// z C / n a coordinate, though nobody or more than n came; and once, not twice.
TEST(PrivateTraining, TheNoiseOnTheMeanIsTheMultiplierTimesTheClipOverTheExpectedNumber) {
  for (const auto attendance : {Attendance::kUniform, Attendance::kPoisson}) {
    const auto moved = noise_alone({central(3, 0.5), attendance}, kRounds);
    const double expected = std::pow(3 * 0.5 / kDrawn, 2);
    const double deviation = expected * std::sqrt(2.0 / (kRounds * kParams));
    EXPECT_NEAR(variance_of(moved), expected, 5 * deviation);
  }
}

TEST(PrivateTraining, SharesOfAllParticipantsMakeTheWholeNoise) {
  PrivateCase c{central(3, 0.5), Attendance::kFull};
  c.options.kind = "distributed";
  const double expected = std::pow(3 * 0.5 / kClients, 2);
  const double deviation = expected * std::sqrt(2.0 / (kRounds * kParams));
  EXPECT_NEAR(variance_of(noise_alone(c, kRounds)), expected, 5 * deviation);
}

// Increments are those of fractional differences of order 1/2: correlated by -1/3.
TEST(PrivateTraining, CorrelatedNoiseIsTakenBackInTheNextRound) {
  PrivateCase c{central(1), Attendance::kCyclic};
  c.options.correlation = Correlation::kToeplitz;
  const auto moved = noise_alone(c, kRounds);
  double squares = 0, products = 0;
  for (std::size_t t = 1; t < moved.size(); ++t) {
    for (std::size_t i = 0; i < kParams; ++i) {
      squares += moved[t][i] * moved[t][i];
      products += moved[t][i] * moved[t - 1][i];
    }
  }
  EXPECT_NEAR(products / squares, -1.0 / 3, 5 / std::sqrt((kRounds - 1) * kParams));
}

// Behind four rounds of a tree, the model has one node's noise; behind three, two nodes'.
TEST(PrivateTraining, ATreeLeavesTheNoiseOfAPrefixesNodes) {
  PrivateCase c{central(1), Attendance::kCyclic};
  c.options.correlation = Correlation::kTree;
  const double node = std::pow(std::sqrt(4.0 * 4) / kDrawn, 2);  // 4 trees, 4 nodes each
  double after_three = 0, after_four = 0;
  constexpr int kSeeds = 40;
  for (int seed = 1; seed <= kSeeds; ++seed) {
    TinyJob job = job_of(c);
    job.privacy = [&](Communicator& comm) {
      const PrivacyTerms terms{.attendance = Attendance::kCyclic,
                               .clients = kClients,
                               .per_round = kDrawn,
                               .n_params = kParams};
      return std::make_unique<PrivateTraining>(
          PrivacySetup{c.options, terms, kRounds, static_cast<uint64_t>(seed),
                       [](int64_t) { return 0.0; }},
          comm, kParams);
    };
    const auto start = train_threads(1, job, 0);
    const auto three = train_threads(1, job, 3), four = train_threads(1, job, 4);
    for (std::size_t i = 0; i < kParams; ++i) {
      after_three += std::pow(three[i] - start[i], 2);
      after_four += std::pow(four[i] - start[i], 2);
    }
  }
  constexpr double kSamples = kSeeds * kParams;
  EXPECT_NEAR(after_four / kSamples, node, 5 * node * std::sqrt(2 / kSamples));
  EXPECT_NEAR(after_three / kSamples, 2 * node, 10 * node * std::sqrt(2 / kSamples));
}

TEST(PrivateTraining, ALongUpdateCountsAsMuchAsTheClip) {
  const auto without = train_threads(1, job_of({central(0, 1e4), Attendance::kFull}), 0);
  const auto clipped = train_threads(1, job_of({central(0, 0.01), Attendance::kFull}), 1);
  double squares = 0;
  for (std::size_t i = 0; i < kParams; ++i) squares += std::pow(clipped[i] - without[i], 2);
  EXPECT_LE(std::sqrt(squares), 0.01 + 1e-6);
  EXPECT_GT(squares, 0);
}

TEST(PrivateTraining, TheRunEndsBeforeTheRoundThatWouldExceedEpsilon) {
  PrivateCase c{central(1)};
  c.options.max_epsilon = 8;
  run_threads(2, [&](Communicator& comm) {
    TinyTraining training(comm, job_of(c));
    int rounds = 0;
    const auto goes_on = [&] {
      int64_t yes = training.trainer->end().empty();
      comm.bcast(std::span(&yes, 1), 0);
      return yes != 0;
    };
    for (; goes_on(); ++rounds) training.trainer->round(false);
    EXPECT_EQ(rounds, 2);  // 4.75, 7.09, 9.09
  });
}

}  // namespace
}  // namespace hanse
