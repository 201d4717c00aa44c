// Which samples a participation visits.
#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "client/regression.hpp"

namespace hanse {
namespace {

// Notes the first feature of every sample it is trained on.
class Recorder final : public Model {
 public:
  Recorder() { layout_.add("w", {1}, 1); }
  double loss_and_gradient(std::span<const float>, const Batch& batch, RandomStream&,
                           std::span<float> gradient) override {
    for (int64_t i = 0; i < batch.rows; ++i) seen.push_back(batch.features[3 * i]);
    longest = std::max(longest, batch.rows);
    gradient[0] = 0;
    return 0;
  }
  double sgd_step(std::span<float> row, const Batch& batch, RandomStream& noise, double,
                  double) override {
    std::vector<float> unused(row.size());
    return loss_and_gradient(row, batch, noise, unused);
  }
  EvaluationSums evaluate(std::span<const float>, const Batch&, float*) override { return {}; }

  std::vector<float> seen;
  int64_t longest = 0;
};

// Seven clients of unequal size, with test samples between their training samples.
Federation split_federation(Communicator& host) {
  DataOptions data;
  data.kind = "random";
  data.shape = {3};
  data.classes = 2;
  data.test_fraction = 0.3;
  FederationOptions options;
  options.clients = 7;
  options.partition = "power-law";
  options.samples = 11;
  return Federation::load(data, options, 5, host);
}

std::vector<float> first_features(const Federation& federation, int64_t first, int64_t end) {
  std::vector<float> found;
  for (int64_t c = first; c < end; ++c) {
    const SampleRange range = federation.train(c);
    std::vector<float> x(static_cast<std::size_t>(3 * range.size()));
    federation.copy(range, x.data());
    for (int64_t i = 0; i < range.size(); ++i) found.push_back(x[static_cast<std::size_t>(3 * i)]);
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::vector<float> visited(const Federation& federation, const ClientOptions& options,
                           int64_t client, int64_t* longest = nullptr) {
  Recorder model;
  const auto update = make_sgd(options, federation, model);
  OneRound p({1}, 0);
  p.train(*update, client);
  EXPECT_EQ(p.outcome.samples, static_cast<int64_t>(model.seen.size()));
  if (longest) *longest = model.longest;
  std::sort(model.seen.begin(), model.seen.end());
  return model.seen;
}

TEST(Batches, APassVisitsTheClientsTrainingSamples) {
  const auto comm = make_single_communicator();
  const Federation federation = split_federation(*comm);
  for (int64_t c = 0; c < 7; ++c) {
    EXPECT_EQ(visited(federation, {.batch = 4}, c), first_features(federation, c, c + 1));
  }
}

TEST(Batches, APassOfThePoolVisitsEverybodysTrainingSamples) {
  const auto comm = make_single_communicator();
  const Federation federation = split_federation(*comm);
  ASSERT_LT(federation.train_samples(), federation.samples());
  for (const int64_t batch : {4, 1, 1000, 0}) {
    int64_t longest = 0;
    EXPECT_EQ(visited(federation, {.batch = batch, .pooled = true}, 0, &longest),
              first_features(federation, 0, 7));
    EXPECT_EQ(longest, batch == 4 || batch == 1 ? batch : federation.train_samples());
  }
}

TEST(Batches, SamplesProcessedAreThoseVisited) {
  const auto comm = make_single_communicator();
  const Federation federation = split_federation(*comm);
  for (const int64_t steps : {0, 1, 2, 7, 30}) {
    for (const int64_t batch : {0, 1, 3, 5, 64}) {
      const ClientOptions options{.epochs = 2, .steps = steps, .batch = batch};
      for (int64_t c = 0; c < 7; ++c) {
        EXPECT_EQ(samples_processed(options, federation.train(c).size()),
                  static_cast<int64_t>(visited(federation, options, c).size()))
            << steps << " steps of " << batch << ", client " << c;
      }
    }
  }
}

}  // namespace
}  // namespace hanse
