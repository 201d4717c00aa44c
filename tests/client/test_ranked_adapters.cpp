// Adapters whose ranks differ from client to client.
#include <gtest/gtest.h>

#include "client/regression.hpp"
#include "hanse/client/ranked_adapters.hpp"
#include "hanse/model/part_model.hpp"
#include "support/updates.hpp"

namespace hanse {
namespace {

constexpr int64_t kIn = 3, kOut = 6, kRank = 3;

// An mlp of 3 inputs and 6 units with an adapter on its first layer: A [rank, 3], B [6, rank].
std::unique_ptr<PartModel> adapted(const Regression& r, int64_t rank) {
  auto model = std::make_unique<PartModel>(
      make_model({.kind = "mlp", .loss = "squared-error", .hidden = {kOut}},
                 r.federation.sample_shape(), 0),
      TrainedPart{.rank = rank, .layers = {"fc1.weight"}});
  model->hold(*r.comm, 1);
  return model;
}

Row start_of(const Model& model) {
  Row row(static_cast<std::size_t>(model.n_params()));
  RandomStream stream(1, Purpose::kInitialize);
  model.initialize(row, stream);
  return row;
}

ClientOptions options(const std::string& kind) {
  return {{.epochs = 3, .batch = 2},
          {.lr = 0.05, .momentum = 0.5, .weight_decay = 0.1},
          {.kind = kind, .mu = 0.8}};
}

// The first `rank` rows of A and columns of B of a row of rank kRank.
Row narrowed(const Row& row, int64_t rank) {
  Row found(row.begin(), row.begin() + rank * kIn);
  for (int64_t o = 0; o < kOut; ++o) {
    const auto b = row.begin() + kRank * kIn + o * kRank;
    found.insert(found.end(), b, b + rank);
  }
  return found;
}

double largest(const Row& row) {
  double most = 0;
  for (const float value : row) most = std::max(most, std::abs(static_cast<double>(value)));
  return most;
}

// A client of rank r trains an adapter of rank r; what is beyond it stays exactly 0.
TEST(RankedAdapters, TrainAsAdaptersOfTheirRank) {
  const Regression r(random_clients());
  const auto model = adapted(r, kRank);
  for (const std::string kind : {"sgd", "prox"}) {
    const auto mine =
        make_ranked(sgd_or_prox(options(kind), r.federation, *model), {1, 2, 3}, model->layout());
    for (int64_t client = 0; client < 3; ++client) {
      const int64_t rank = client + 1;
      OneRound ranked(start_of(*model));
      ranked.train(*mine, client, 2);
      const auto small = adapted(r, rank);
      const auto plain = sgd_or_prox(options(kind), r.federation, *small);
      OneRound own(narrowed(start_of(*model), rank));
      own.train(*plain, client, 2);
      const Row found = narrowed(ranked.row, rank);
      ASSERT_EQ(found.size(), own.row.size());
      for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], own.row[i], 1e-6);
      EXPECT_GT(largest({found.begin() + rank * kIn, found.end()}), 1e-3);
      Row beyond = ranked.row;
      for (int64_t i = 0; i < rank * kIn; ++i) beyond[static_cast<std::size_t>(i)] = 0;
      for (int64_t o = 0; o < kOut; ++o) {
        for (int64_t k = 0; k < rank; ++k) {
          beyond[static_cast<std::size_t>(kRank * kIn + o * kRank + k)] = 0;
        }
      }
      EXPECT_EQ(beyond, Row(beyond.size()));
    }
  }
}

TEST(AdapterScale, IsAlphaOverTheRankOrItsRoot) {
  PartOptions options;
  EXPECT_EQ(adapter_scale(options, 8), 1);
  options.lora_alpha = 6;
  EXPECT_DOUBLE_EQ(adapter_scale(options, 4), 1.5);
  options.lora_scale = LoraScale::kRoot;
  EXPECT_DOUBLE_EQ(adapter_scale(options, 4), 3);
}

TEST(RankedAdapters, SendTheirRankAlone) {
  const Regression r(random_clients());
  const auto model = adapted(r, kRank);
  const auto mine =
      make_ranked(make_sgd(options("sgd"), r.federation, *model), {1, 2, 3}, model->layout());
  for (int64_t client = 0; client < 3; ++client) {
    EXPECT_EQ(mine->sent_values(1, client, model->layout()), (client + 1) * (kIn + kOut));
  }
}

}  // namespace
}  // namespace hanse
