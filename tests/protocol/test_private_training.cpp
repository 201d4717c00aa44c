// Rounds with client-level privacy.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include "federated/parts/correlated_sums.hpp"
#include "hanse/base/wrapping.hpp"
#include "hanse/protocol/private_training.hpp"
#include "hanse/rules/privacy/correlation.hpp"
#include "hanse/rules/sampling/basic.hpp"
#include "protocol/resume.hpp"
#include "protocol/tiny_training.hpp"
#include "support/errors.hpp"

namespace hanse {
namespace {

constexpr int64_t kDrawn = 2;
constexpr int64_t kRounds = 20;  // that are planned

struct PrivateCase {
  PrivacyOptions options;
  Attendance attendance = Attendance::kUniform;
  double weight = 1;  // of every update
  std::vector<RowPart> kept = {};
  int64_t rounds = kRounds;  // that are planned
  uint64_t draw_seed = kSeed;
};

CipherKey key_of(uint64_t number) { return CipherKey::of_numbers(std::array{number}); }

PrivacyOptions central(double noise, double clip = 1) {
  PrivacyOptions options;
  options.kind = "central";
  options.noise = noise;
  options.clip = clip;
  return options;
}

std::unique_ptr<ClientSampler> sampler_of(const PrivateCase& c) {
  switch (c.attendance) {
    case Attendance::kFull: return make_full_sampler(kClients);
    case Attendance::kUniform: return make_uniform_sampler(kClients, kDrawn);
    case Attendance::kCyclic: return make_cyclic_sampler(kClients, kDrawn, c.draw_seed);
    case Attendance::kPoisson: return make_poisson_sampler(kClients, kDrawn, c.draw_seed);
  }
  return nullptr;
}

TinyJob job_of(const PrivateCase& c) {
  TinyJob job{.fedavg = {ClientWeights::kUniform, Estimator::kUnbiased}};
  job.own_sampler = [c] { return sampler_of(c); };
  job.privacy = [c](Communicator& comm) {
    const PrivacyTerms terms{.attendance = c.attendance,
                             .clients = kClients,
                             .per_round = c.attendance == Attendance::kFull ? kClients : kDrawn,
                             .n_params = kParams};
    return std::make_unique<PrivateTraining>(
        PrivacySetup{.options = c.options,
                     .terms = terms,
                     .rounds = c.rounds,
                     .key = key_of(5),
                     .weight = [weight = c.weight](int64_t) { return weight; },
                     .kept = c.kept},
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
  all.push_back(all.back());
  all.back().options.honest = 0.5;
  all.push_back({central(1)});
  all.back().kept = {{3, 5}, {18, 19}};
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
    TinyJob job = job_of(c);
    const auto expected = train_threads(1, job, 9);
    for (const bool apart : {true, false}) {  // rank 0 serves alone, or trains, too
      job.apart = apart;
      for (int ranks = 2; ranks <= 4; ++ranks) EXPECT_EQ(train_threads(ranks, job, 9), expected);
    }
    const Kept kept = train_and_keep<TinyTraining>(3, job, 5);
    EXPECT_EQ(go_on<TinyTraining>(2, job, kept, 4), expected);
    EXPECT_EQ(go_on<TinyTraining>(1, job, kept, 4), expected);
  }
}

TEST(PrivateTraining, TheRanksThatTrainDrawTheNoise) {
  run_threads(1, [](Communicator& comm) {
    std::vector<std::vector<int64_t>> noise;
    for (const auto& [worker, workers] : {std::pair{-1, 2}, {0, 2}, {1, 2}, {0, 1}}) {
      const auto part = job_of({central(1)}).privacy(comm);
      part->joins(worker, workers);
      UpdateSum sum(kParams, kDrawn, Reduction::kExact);
      part->opens(1, sum);
      const auto entries = sum.integers(0, kParams);
      noise.emplace_back(entries.begin(), entries.end());
    }
    EXPECT_EQ(noise[0], std::vector<int64_t>(kParams));
    EXPECT_NE(noise[3], noise[0]);
    for (std::size_t i = 0; i < kParams; ++i) EXPECT_EQ(noise[1][i] + noise[2][i], noise[3][i]);
  });
}

TEST(PrivateTraining, AStateOfOneRankHasWhatARunOfSeveralNeeds) {
  for (const PrivateCase& c : every_mechanism()) {
    const TinyJob job = job_of(c);
    const Kept kept = train_and_keep<TinyTraining>(1, job, 5);
    EXPECT_EQ(go_on<TinyTraining>(4, job, kept, 4), train_threads(1, job, 9));
  }
}

// Keeps what it sees of the sum.
class Look final : public RoundPart {
 public:
  using Integers = std::vector<int64_t>;
  struct Seen {
    Integers begin, on_rank, on_server;
  };
  explicit Look(Seen& seen) : seen_(seen) {}
  void opens(int64_t, UpdateSum& sum) override { keep(sum, seen_.begin); }
  void closes(UpdateSum& sum) override { keep(sum, seen_.on_rank); }
  bool reads(UpdateSum& sum, std::span<float>) override {
    keep(sum, seen_.on_server);
    return false;
  }

 private:
  static void keep(UpdateSum& sum, Integers& seen) {
    const auto integers = sum.integers(0, sum.size());
    seen.assign(integers.begin(), integers.end());
  }
  Seen& seen_;
};

Look::Seen seen_by(const PrivateCase& c, int64_t rounds = 1) {
  Look::Seen seen;
  TinyJob job = job_of(c);
  job.round_part = [&](Communicator&) { return std::make_unique<Look>(seen); };
  train_threads(1, job, rounds);
  return seen;
}

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
    CorrelatedSums sums(numerators, comm, 3);
    sums.begin(key_of(9));
    sums.add(update);
    std::vector<int64_t> y(3);
    sums.encode(y);
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

// Shares of those who do not come are filled up, and those beyond the expected number add none: the
// noise is the same whoever comes.
TEST(PrivateTraining, SharesMakeTheSameNoiseWhoeverComes) {
  PrivateCase c{central(3, 0.5), Attendance::kPoisson, 0};
  c.options.kind = "distributed";
  const auto model = train_threads(1, job_of(c), kRounds);
  c.draw_seed = kSeed + 1;
  EXPECT_EQ(train_threads(3, job_of(c), kRounds), model);
  const double expected = std::pow(3 * 0.5 / kDrawn, 2);
  const double deviation = expected * std::sqrt(2.0 / (kRounds * kParams));
  EXPECT_NEAR(variance_of(noise_alone(c, kRounds)), expected, 5 * deviation);
  // Half of the shares make the noise: it has twice the variance.
  c.options.honest = 0.5;
  EXPECT_NEAR(variance_of(noise_alone(c, kRounds)), 2 * expected, 10 * deviation);
}

TEST(PrivateTraining, EntriesThatClientsKeepHaveNoNoise) {
  for (PrivateCase c : every_mechanism()) {
    c.kept = {{0, 2}, {7, 8}};
    const auto start = train_threads(1, job_of(c), 0), end = train_threads(2, job_of(c), 5);
    c.kept.clear();
    const auto all = train_threads(1, job_of(c), 5);
    for (std::size_t i = 0; i < kParams; ++i) {
      const bool is_kept = i < 2 || i == 7;
      EXPECT_EQ(end[i] == start[i], is_kept) << i;
      EXPECT_TRUE(is_kept ? all[i] != start[i] : true) << i;
    }
  }
}

// An update that is not finite is one of zeros; the others and the noise stay what they are.
TEST(PrivateTraining, AnUpdateThatIsNotFiniteCountsAsZero) {
  const auto train = [](float spoilt) {
    std::vector<float> model;
    run_threads(2, [&](Communicator& comm) {
      TinyTraining training(comm, job_of({central(1), Attendance::kFull}));
      training.update->spoil = [&](const ClientTask& task, ClientOutcome& outcome) {
        if (task.client != 4) return;
        const auto received = training.trainer->model_row();
        std::copy(received.begin(), received.end(), task.row.begin());
        if (spoilt == 0) return;
        task.row[3] = spoilt;
        outcome.loss = std::numeric_limits<double>::quiet_NaN();
      };
      for (int round = 0; round < 3; ++round) {
        EXPECT_FALSE(training.trainer->round(false).failed);
      }
      if (comm.rank() == 0) {
        const auto row = training.trainer->model_row();
        model.assign(row.begin(), row.end());
      }
    });
    return model;
  };
  const auto zeros = train(0);
  EXPECT_EQ(train(std::numeric_limits<float>::quiet_NaN()), zeros);
  EXPECT_EQ(train(std::numeric_limits<float>::infinity()), zeros);
}

// Does some array of the state hold the key?
bool holds(const State& state, const CipherKey& key) {
  const auto words = key.words();
  return std::ranges::any_of(state.arrays(), [&](const auto& array) {
    const auto* integers = std::get_if<std::vector<int64_t>>(&array.second);
    return integers != nullptr && !std::ranges::search(*integers, words).empty();
  });
}

// The keys of a round, and those that are made of them, are gone once nothing needs them.
TEST(PrivateTraining, AStateTellsNoNoiseOfThePast) {
  using Use = RoundSecret::Use;
  for (PrivateCase c : every_mechanism()) {
    c.rounds = 12;
    const bool is_tree = c.options.correlation == Correlation::kTree;
    const bool has_masks = !is_tree && c.options.correlation != Correlation::kNone;
    const int64_t bands =
        c.options.correlation == Correlation::kBanded ? c.options.bands : c.rounds;
    for (const int64_t done : {int64_t{7}, c.rounds}) {
      const State state = train_and_keep<TinyTraining>(2, job_of(c), done).server;
      RoundSecret secret(key_of(5));
      for (int64_t round = 1; round <= done; ++round) {
        EXPECT_FALSE(holds(state, secret.present())) << round;
        EXPECT_FALSE(holds(state, secret.key(Use::kDraw))) << round;
        EXPECT_FALSE(holds(state, secret.key(Use::kCount))) << round;
        // Nodes of rounds 1 to 5, the length of a tree, and 6: behind 7 there is that of 6 and 7.
        const bool is_needed = is_tree && done == 7 && round == 7;
        EXPECT_EQ(holds(state, secret.key(Use::kNoise)), is_needed) << round;
        const bool is_masked = has_masks && done < c.rounds && round > done - (bands - 1);
        EXPECT_EQ(holds(state, secret.key(Use::kMask)), is_masked) << round;
        secret.move_on();
      }
      const bool ends = c.options.correlation != Correlation::kNone && done == c.rounds;
      EXPECT_EQ(holds(state, secret.present()), !ends);
    }
  }
}

TEST(PrivateTraining, AResumeDoesNotGoBeyondTheEpsilonThatItsNoiseWasFoundFor) {
  PrivateCase c{central(1), Attendance::kPoisson};
  c.options.noise = std::nullopt;
  c.options.epsilon = 4;
  c.rounds = 5;
  const Kept kept = train_and_keep<TinyTraining>(1, job_of(c), 5);
  c.rounds = 6;
  const auto resume = [&] {
    run_threads(
        1, [&](Communicator& comm) { TinyTraining(comm, job_of(c)).trainer->resume(kept.server); });
  };
  expect_error<AgreedError>(resume, {"privacy.epsilon = 4", "6 rounds", "privacy.max-epsilon"});
  c.options.max_epsilon = 5;
  resume();
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
  const double node = std::pow(std::sqrt(4.0 * 3) / kDrawn, 2);  // 4 trees, 3 nodes each
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
          PrivacySetup{c.options, terms, kRounds, key_of(static_cast<uint64_t>(seed)),
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
