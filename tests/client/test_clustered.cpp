// Copies of tensors for clusters of clients: where they lie, how they start, who trains which.
#include <algorithm>
#include <numeric>

#include <gtest/gtest.h>

#include "client/regression.hpp"
#include "hanse/client/clustered.hpp"
#include "hanse/client/evaluator.hpp"
#include "support/errors.hpp"
#include "support/updates.hpp"

namespace hanse {
namespace {

// Seven trained values and two of a buffer, which stands between the others' names.
ParameterLayout small_layout() {
  ParameterLayout layout;
  layout.add("body.weight", {2}, 2);
  layout.add("head.weight", {3}, 2);
  layout.add("head.bias", {1}, 2);
  layout.add("scale", {1}, 2);
  layout.add_buffer("mean", {2});
  return layout;
}

TEST(CopyPlaces, StandBetweenTrainedAndBuffers) {
  const CopyPlaces places(small_layout(), {"head.*"}, 3);
  const ParameterLayout wide = places.wide_layout(small_layout());
  std::vector<std::string> names;
  for (const ParameterSlot& slot : wide.slots()) names.push_back(slot.name);
  EXPECT_EQ(names,
            (std::vector<std::string>{"body.weight", "head.weight", "head.bias", "scale",
                                      "cluster1.head.weight", "cluster1.head.bias",
                                      "cluster2.head.weight", "cluster2.head.bias", "mean"}));
  EXPECT_EQ(wide.n_params(), 17);
  EXPECT_EQ(wide.n_trainable(), 15);
  EXPECT_EQ(places.wide_size(), 17);
  EXPECT_EQ(places.copy_size(), 4);

  Row row(17), plain(9);
  std::iota(row.begin(), row.end(), 0.0F);
  places.take(row, 0, plain);
  EXPECT_EQ(plain, (Row{0, 1, 2, 3, 4, 5, 6, 15, 16}));
  places.take(row, 2, plain);
  EXPECT_EQ(plain, (Row{0, 1, 11, 12, 13, 14, 6, 15, 16}));
  for (float& value : plain) value = -value;
  places.put(plain, 1, row);
  EXPECT_EQ(row, (Row{0, -1, 2, 3, 4, 5, -6, -11, -12, -13, -14, 11, 12, 13, 14, -15, -16}));
}

TEST(CopyPlaces, KnowWhetherCopiesAreEqual) {
  const CopyPlaces places(small_layout(), {"head.weight", "scale"}, 2);
  Row row{0, 1, 2, 3, 4, 5, 6, 2, 3, 4, 6, 7, 8};
  EXPECT_TRUE(places.all_equal(row));
  for (const std::size_t entry : {2, 6, 9, 10}) {
    Row other = row;
    other[entry] += 1;
    EXPECT_FALSE(places.all_equal(other)) << entry;
  }
  row[5] = 9;  // of no copy
  EXPECT_TRUE(places.all_equal(row));
}

TEST(CopyPlaces, AreOfTensorsThatAreTrained) {
  for (const char* pattern : {"mean", "neck.*"}) {
    expect_error<InvalidArgument>(
        [&] {
          CopyPlaces(small_layout(), {"head.*", pattern}, 2);
        },
        {pattern, "client.clustered", "head.weight"});
  }
}

struct Clusters : Regression {
  explicit Clusters(int64_t copies, const std::string& pattern = "fc2.*")
      : Regression(random_clients({6, 4, 8})),
        wide(make_model({.kind = "mlp", .loss = "squared-error", .hidden = {4}},
                        federation.sample_shape(), 0),
             {pattern}, copies, kModelSeed),
        row(static_cast<std::size_t>(wide.n_params())) {
    RandomStream stream(kModelSeed, Purpose::kInitialize);
    wide.initialize(row, stream);
  }

  Row plain_of(const Row& from, int64_t copy) const {
    Row plain(static_cast<std::size_t>(wide.places().plain_size()));
    wide.places().take(from, copy, plain);
    return plain;
  }
  std::unique_ptr<ClusteredUpdate> update(const ClientOptions& options,
                                          std::vector<int64_t> fixed) {
    return std::make_unique<ClusteredUpdate>(sgd_or_prox(options, federation, wide.plain()),
                                             federation, wide, std::move(fixed));
  }
  double loss(const Row& plain, int64_t client) {
    RowEvaluator evaluator(federation, wide.plain());
    return evaluator.at(plain).range(federation.train(client)).loss;
  }

  static constexpr uint64_t kModelSeed = 5;
  ClusteredModel wide;
  Row row;
};

TEST(ClusteredModel, StartsCopiesFromStreamsOfTheirOwn) {
  const Clusters c(3);
  for (const uint64_t copy : {0, 1, 2}) {
    RandomStream stream(Clusters::kModelSeed, Purpose::kInitialize, 0, copy);
    Row own(static_cast<std::size_t>(c.wide.places().plain_size()));
    c.wide.plain().initialize(own, stream);
    const Row found = c.plain_of(c.row, static_cast<int64_t>(copy));
    for (const RowPart& part : c.wide.places().parts()) {
      EXPECT_TRUE(
          std::equal(own.begin() + part.begin, own.begin() + part.end, found.begin() + part.begin))
          << copy;
    }
    EXPECT_EQ(found == own, copy == 0);
  }
}

TEST(ClusteredModel, IsTheModelOfCopyNought) {
  Clusters c(3);
  const Row plain = c.plain_of(c.row, 0);
  RowEvaluator wide(c.federation, c.wide);
  EXPECT_EQ(wide.at(c.row).range(c.federation.train(2)).loss, c.loss(plain, 2));
  const auto update = sgd_or_prox({}, c.federation, c.wide);
  Row trained = c.row, own = plain;
  update->train({.client = 2, .round = 1, .seed = 3, .row = trained});
  sgd_or_prox({}, c.federation, c.wide.plain())
      ->train({.client = 2, .round = 1, .seed = 3, .row = own});
  EXPECT_EQ(c.plain_of(trained, 0), own);
  EXPECT_EQ(c.plain_of(trained, 2), [&] {
    Row expected = c.plain_of(c.row, 2);
    for (const RowPart& part : c.wide.places().shared()) {
      std::copy(own.begin() + part.begin, own.begin() + part.end, expected.begin() + part.begin);
    }
    return expected;
  }());
}

TEST(ClusteredUpdate, TrainsItsCopyAndLeavesTheOthers) {
  for (const std::string pattern : {"fc2.*", "*", "fc1.bias"}) {
    Clusters c(3, pattern);
    const ClientOptions options{};
    const auto update = c.update(options, {2, 0, 1});
    for (int64_t client = 0; client < 3; ++client) {
      const int64_t copy = update->fixed()[static_cast<std::size_t>(client)];
      Row own = c.plain_of(c.row, copy), state(static_cast<std::size_t>(update->state_width()));
      const ClientOutcome expected =
          sgd_or_prox(options, c.federation, c.wide.plain())
              ->train({.client = client, .round = 4, .seed = 9, .row = own});
      Row trained = c.row;
      const ClientOutcome found =
          update->train({.client = client, .round = 4, .seed = 9, .row = trained, .state = state});
      EXPECT_EQ(found.loss, expected.loss);
      Row rebuilt = c.row;
      c.wide.places().put(own, copy, rebuilt);
      EXPECT_EQ(trained, rebuilt) << pattern << " " << client;
      EXPECT_NE(trained, c.row);

      Row view = c.row;
      update->receive(state, view);
      EXPECT_EQ(c.plain_of(view, 0), c.plain_of(c.row, copy)) << "its copy stands in front";
      update->own_model({.client = client, .row = view = c.row, .state = state});
      EXPECT_EQ(c.plain_of(view, 0), c.plain_of(c.row, copy));
    }
  }
}

TEST(ClusteredUpdate, WhoHasNoCopyTakesThatOfTheLeastLoss) {
  Clusters c(5, "*");
  const auto update = c.update({}, {});
  std::vector<int64_t> taken;
  for (int64_t client = 0; client < 3; ++client) {
    int64_t best = 0;
    for (int64_t copy = 1; copy < 5; ++copy) {
      if (c.loss(c.plain_of(c.row, copy), client) < c.loss(c.plain_of(c.row, best), client)) {
        best = copy;
      }
    }
    taken.push_back(best);
    Row view = c.row, state(static_cast<std::size_t>(update->state_width()));
    update->own_model({.client = client, .row = view, .state = state});
    EXPECT_EQ(c.plain_of(view, 0), c.plain_of(c.row, best));
    update->take_copy(state, (best + 1) % 5);
    view = c.row;
    update->own_model({.client = client, .row = view, .state = state});
    EXPECT_EQ(c.plain_of(view, 0), c.plain_of(c.row, (best + 1) % 5));
  }
  EXPECT_GT(std::ranges::max(taken), 0);
  // Ties: the first.
  for (int64_t copy = 1; copy < 5; ++copy) c.wide.places().put(c.plain_of(c.row, 0), copy, c.row);
  Row view = c.row, state(static_cast<std::size_t>(update->state_width()));
  update->train({.client = 0, .round = 1, .seed = 1, .row = view, .state = state});
  EXPECT_EQ(c.plain_of(view, 1), c.plain_of(c.row, 1));
  EXPECT_NE(c.plain_of(view, 0), c.plain_of(c.row, 0));
}

}  // namespace
}  // namespace hanse
