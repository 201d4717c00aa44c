// What attackers train on.
#include <limits>

#include <gtest/gtest.h>

#include "client/batch_stream.hpp"
#include "hanse/base/error.hpp"
#include "hanse/comm/communicator.hpp"
#include "support/errors.hpp"

namespace hanse {
namespace {

Federation samples(const std::vector<int64_t>& shape = {2, 4, 5}) {
  DataOptions data;
  data.kind = "random";
  data.shape = shape;
  data.classes = 5;
  data.test_fraction = 0;
  FederationOptions options;
  options.clients = 3;
  options.samples = 11;
  return Federation::load(data, options, 5, *make_single_communicator());
}

PoisonOptions poison(Poison kind, int64_t source = 0, int64_t target = -1, int64_t patch = 2) {
  return {.kind = kind,
          .clients = {1},
          .first_round = 2,
          .last_round = 3,
          .source = source,
          .target = target,
          .patch = patch,
          .share = 0.5};
}

// The first batch of a client's round.
struct FirstBatch {
  std::vector<float> features;
  std::vector<int32_t> labels;
  FirstBatch(const Federation& federation, const PoisonOptions& options, int64_t client,
             int64_t round) {
    ClientOptions all{{.epochs = 1, .batch = 5}};
    all.poison = options;
    BatchStream stream(all, federation);
    stream.start({.client = client, .round = round, .seed = 9});
    const Batch batch = stream.next();
    features.assign(batch.features, batch.features + batch.rows * federation.sample_values());
    labels.assign(batch.labels, batch.labels + batch.rows);
  }
  bool operator==(const FirstBatch&) const = default;
};

TEST(Poisoning, IsOfAttackersInTheirRounds) {
  const Federation federation = samples();
  for (const auto kind : {Poison::kFlip, Poison::kBackdoor}) {
    for (int64_t client = 0; client < 3; ++client) {
      for (int64_t round = 1; round <= 4; ++round) {
        const bool attacks = client == 1 && (round == 2 || round == 3);
        EXPECT_EQ(FirstBatch(federation, poison(kind), client, round) ==
                      FirstBatch(federation, {}, client, round),
                  !attacks)
            << client << " " << round;
      }
    }
  }
}

TEST(Poisoning, FlipsAllLabelsOrOne) {
  const Federation federation = samples();
  const FirstBatch honest(federation, {}, 1, 2);
  const FirstBatch all(federation, poison(Poison::kFlip), 1, 2);
  const FirstBatch one(federation, poison(Poison::kFlip, honest.labels[2], 3), 1, 2);
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(all.labels[i], 4 - honest.labels[i]);
    EXPECT_EQ(one.labels[i], honest.labels[i] == honest.labels[2] ? 3 : honest.labels[i]);
  }
  EXPECT_EQ(all.features, honest.features);
}

TEST(Poisoning, ABackdoorMarksItsShareOfABatch) {
  const Federation federation = samples();
  const FirstBatch honest(federation, {}, 1, 2);
  const FirstBatch found(federation, poison(Poison::kBackdoor, 0, 4), 1, 2);
  for (std::size_t i = 0; i < 5; ++i) {
    const bool patched = i < 3;  // half of five, rounded up
    EXPECT_EQ(found.labels[i], patched ? 4 : honest.labels[i]);
    for (std::size_t v = 0; v < 40; ++v) {
      const std::size_t y = v / 5 % 4, x = v % 5;
      const bool is_one = patched && y >= 2 && x >= 3;
      EXPECT_EQ(found.features[40 * i + v], is_one ? 1 : honest.features[40 * i + v]);
    }
  }
}

TEST(Poisoning, AClientWithoutSamplesMakesNoStep) {
  const Federation federation = samples().with_idle(2);
  ASSERT_EQ(federation.clients(), 5);
  EXPECT_EQ(federation.train(4).size(), 0);
  EXPECT_EQ(federation.train_samples(), 33);
  EXPECT_NE(federation.digest(), samples().digest());
  for (const int64_t steps : {0, 4}) {
    ClientOptions options{{.epochs = 2, .steps = steps, .batch = 5}};
    BatchStream stream(options, federation);
    int64_t made = 0;
    const ClientOutcome outcome =
        stream.run({.client = 4, .round = 1, .seed = 9}, [&](const Batch&, RandomStream&) {
          ++made;
          return 1.0;
        });
    EXPECT_EQ(made, 0);
    EXPECT_EQ(outcome.loss, 0);
    EXPECT_EQ(outcome.samples, 0);
  }
}

TEST(Poisoning, RefusesWhatDoesNotFitTheData) {
  const auto refused = [](const PoisonOptions& options, const Federation& federation,
                          std::initializer_list<std::string> parts) {
    ClientOptions all;
    all.poison = options;
    expect_error<InvalidArgument>([&] { BatchStream(all, federation); }, parts);
  };
  refused(poison(Poison::kFlip, 0, 5), samples(), {"no class 5 of 5", "(attack.target)"});
  refused(poison(Poison::kFlip, 7, 1), samples(), {"no class 7 of 5", "(attack.source)"});
  refused(poison(Poison::kBackdoor, 0, 0, 5), samples(), {"a patch of 5", "4 x 5"});
  refused(poison(Poison::kBackdoor), samples({7}), {"{7} are no images", "(attack.kind)"});
}

}  // namespace
}  // namespace hanse
