// Clients that send directions, side by side on a device, against one after the other on the host.
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "client/unequal_federation.hpp"
#include "hanse/client/cohort_update.hpp"
#include "hanse/client/updates.hpp"
#include "support/devices.hpp"
#include "support/thread_communicator.hpp"

namespace hanse {
namespace {

using Row = std::vector<float>;

constexpr uint64_t kSeed = 5;
constexpr int64_t kRounds = 4;
constexpr int64_t kSampleBytes = 1 << 24;
const std::vector<int64_t> kClients{3, 0, 6, 5, 1};  // of 7, 1, 3, 1 and 7 samples

struct Case {
  ModelOptions model;
  ClientOptions client;
  std::vector<int64_t> shape = {4};
  int64_t samples_on_device = kSampleBytes;
};

// What each client keeps: the rows of a table [7, width].
struct States {
  explicit States(const LocalUpdate& update)
      : width(static_cast<std::size_t>(update.state_width())), values(7 * width) {}
  std::span<float> of(int64_t client) {
    return std::span(values).subspan(static_cast<std::size_t>(client) * width, width);
  }
  std::size_t width;
  std::vector<float> values;
};

ClientTask task_of(int64_t client, int64_t round, States& states) {
  return {.client = client, .round = round, .seed = kSeed, .state = states.of(client)};
}

double length_of(const Row& row) {
  double square = 0;
  for (const float value : row) square += static_cast<double>(value) * static_cast<double>(value);
  return std::sqrt(square);
}

// In each round both get the model that the host's directions lead to.
void expect_agreement(const Case& c, const std::string& what) {
  const auto comm = make_single_communicator();
  const Federation federation = unequal_federation(*comm, c.shape, 3, 0, kSeed);
  const auto model = make_model(c.model, federation.sample_shape(), federation.classes());
  for (const std::string& device : test_devices()) {
    for (const int64_t places : {5, 6}) {
      torch_library().set_threads(1);
      const auto host = make_quasi_newton(c.client, federation, *model);
      const auto other = make_quasi_newton(c.client, federation, *model);
      CohortTraining training(c.client, federation, c.model, device, places, c.samples_on_device);
      const auto cohort = other->cohort_update(training, model->layout());
      States kept(*host), kept_there(*other);
      Row theta(static_cast<std::size_t>(model->n_params()));
      RandomStream stream(kSeed, Purpose::kInitialize);
      model->initialize(theta, stream);
      for (int64_t round = 1; round <= kRounds; ++round) {
        const std::string where = what + " on " + device + ", round " + std::to_string(round);
        training.cohort().put_theta(theta);
        std::vector<ClientTask> tasks;
        for (const int64_t client : kClients) tasks.push_back(task_of(client, round, kept_there));
        auto outcomes = cohort->train(tasks, theta);
        std::vector<double> losses(static_cast<std::size_t>(places));
        training.cohort().take_losses(losses);
        cohort->finish(losses, theta, outcomes);
        EXPECT_FALSE(cohort->origin().defined());
        const at::Tensor rows = training.cohort().rows().cpu().contiguous();
        const Row received = theta;
        for (std::size_t i = 0; i < kClients.size(); ++i) {
          ClientTask task = task_of(kClients[i], round, kept);
          Row row = received;
          task.row = row;
          const ClientOutcome expected = host->train(task);
          EXPECT_NEAR(outcomes[i].loss, expected.loss, 1e-5) << where;
          EXPECT_EQ(outcomes[i].samples, expected.samples) << where;
          EXPECT_NEAR(outcomes[i].rate, expected.rate, 2e-3 * std::abs(expected.rate) + 1e-7)
              << where << ", client " << kClients[i];
          const float* got = rows.data_ptr<float>() + i * row.size();
          const double least = 1e-5 * length_of(row) + 1e-7;
          for (std::size_t j = 0; j < row.size(); ++j) {
            ASSERT_NEAR(got[j], row[j], least) << where << ", client " << kClients[i];
            theta[j] += 0.1F * row[j];
          }
        }
      }
    }
  }
}

Case with(int64_t batch, int64_t steps, int64_t pairs, SentGradient sent = SentGradient::kAuto) {
  Case c{.model = {.kind = "mlp", .hidden = {5}}, .client = {{.batch = batch}, {.lr = 0.05}}};
  c.client.steps = steps;
  c.client.pairs = pairs;
  c.client.gradient = sent;
  c.client.rate_limit = 0;
  return c;
}

TEST(QuasiNewtonCohort, OfPairsOfTheRoundAlone) {
  for (const SentGradient sent :
       {SentGradient::kLast, SentGradient::kMean, SentGradient::kUpdate}) {
    expect_agreement(with(4, 5, 3, sent), "three of five steps, " + name_of(sent));
    expect_agreement(with(4, 4, 4, sent), "as many as steps, " + name_of(sent));
    expect_agreement(with(0, 5, 2, sent), "full batches, " + name_of(sent));
    expect_agreement(with(0, 3, 3, sent), "full batches, all steps, " + name_of(sent));
  }
}

TEST(QuasiNewtonCohort, OfPairsThatClientsKeep) {
  for (const SentGradient sent :
       {SentGradient::kLast, SentGradient::kMean, SentGradient::kUpdate}) {
    expect_agreement(with(4, 1, 3, sent), "one step, " + name_of(sent));
    expect_agreement(with(4, 2, 5, sent), "two steps, " + name_of(sent));
    expect_agreement(with(0, 1, 2, sent), "a full batch, " + name_of(sent));
    expect_agreement(with(0, 2, 4, sent), "two full batches, " + name_of(sent));
  }
  Case epochs = with(3, 0, 4);  // 1 to 6 steps
  epochs.client.epochs = 2;
  expect_agreement(epochs, "epochs");
}

// Clients of 1 to 3 steps, of 1 pair: some are among their last steps when they receive a model.
TEST(QuasiNewtonCohort, OfUnequalClients) {
  Case epochs = with(3, 0, 1);
  epochs.client.epochs = 1;
  expect_agreement(epochs, "one pair");
  epochs.samples_on_device = 0;
  expect_agreement(epochs, "samples apart");
}

TEST(QuasiNewtonCohort, OfOtherRates) {
  for (const LoweringRate rate : {LoweringRate::kGradient, LoweringRate::kLoss}) {
    for (const SentGradient sent :
         {SentGradient::kLast, SentGradient::kMean, SentGradient::kUpdate}) {
      Case c = with(4, 3, 4, sent);
      c.client.rate = rate;
      c.client.rate_power = 1.5;
      expect_agreement(c, name_of(rate) + " " + name_of(sent));
    }
  }
  Case limited = with(4, 4, 2);
  limited.client.rate_limit = 0.01;
  expect_agreement(limited, "limited rates");
}

TEST(QuasiNewtonCohort, WithDecayAndDropout) {
  Case decaying = with(4, 4, 2, SentGradient::kLast);
  decaying.client.weight_decay = 0.3;
  expect_agreement(decaying, "weight decay");
  Case dropping = with(4, 3, 2);
  dropping.model = {.kind = "cnn-cifar"};
  dropping.shape = {3, 8, 9};
  expect_agreement(dropping, "dropout");
  Case linear = with(2, 6, 3, SentGradient::kLast);  // gradients in factors on the host
  linear.model = {.kind = "linear"};
  linear.shape = {60};
  expect_agreement(linear, "linear");
}

}  // namespace
}  // namespace hanse
