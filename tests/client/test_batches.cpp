// Which samples a participation visits.
#include <algorithm>
#include <set>
#include <stdexcept>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "client/regression.hpp"
#include "hanse/base/error.hpp"
#include "hanse/client/batch_trial.hpp"
#include "hanse/client/updates.hpp"
#include "support/errors.hpp"

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
    rows.push_back(batch.rows);
    gradient[0] = 0;
    return 0;
  }
  double sgd_step(std::span<float> row, const Batch& batch, RandomStream& noise, double,
                  double) override {
    std::vector<float> unused(row.size());
    return loss_and_gradient(row, batch, noise, unused);
  }
  EvaluationSums evaluate(std::span<const float>, const Batch&, SampleResults) override {
    return {};
  }

  std::vector<float> seen;
  int64_t longest = 0;
  std::vector<int64_t> rows;  // of each batch
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
    EXPECT_EQ(visited(federation, {{.batch = 4}}, c), first_features(federation, c, c + 1));
  }
}

// What was looked at ahead changes no order, whoever comes then, and however often.
TEST(Batches, TheNextClientMayBeKnown) {
  const auto host = make_single_communicator();
  const Federation federation = split_federation(*host);
  const auto order = [&](LocalUpdate& update, Recorder& model, ClientTask task) {
    model.seen.clear();
    std::vector<float> row(1);
    task.row = row;
    update.train(task);
    return model.seen;
  };
  const ClientOptions options{{.epochs = 2, .batch = 3}};
  Recorder looking;
  const auto ahead = make_sgd(options, federation, looking);
  const ClientTask tasks[] = {{.client = 2, .round = 1, .seed = 4, .next = 5},
                              {.client = 5, .round = 1, .seed = 4},
                              {.client = 5, .round = 1, .seed = 4},
                              {.client = 5, .round = 1, .seed = 4},
                              {.client = 5, .round = 1, .seed = 4, .next = 0},
                              {.client = 5, .round = 1, .seed = 4},
                              {.client = 3, .round = 1, .seed = 4, .next = 6},
                              {.client = 6, .round = 2, .seed = 4},
                              {.client = 1, .round = 2, .seed = 4, .next = 4},
                              {.client = 4, .round = 2, .seed = 5}};
  for (ClientTask task : tasks) {
    Recorder model;
    const auto fresh = make_sgd(options, federation, model);
    const std::vector<float> found = order(*ahead, looking, task);
    task.next = -1;
    EXPECT_EQ(found, order(*fresh, model, task)) << "client " << task.client;
  }
}

TEST(Batches, APassOfThePoolVisitsEverybodysTrainingSamples) {
  const auto comm = make_single_communicator();
  const Federation federation = split_federation(*comm);
  ASSERT_LT(federation.train_samples(), federation.samples());
  for (const int64_t batch : {4, 1, 1000, 0}) {
    int64_t longest = 0;
    EXPECT_EQ(visited(federation, {{.batch = batch, .pooled = true}}, 0, &longest),
              first_features(federation, 0, 7));
    EXPECT_EQ(longest, batch == 4 || batch == 1 ? batch : federation.train_samples());
  }
}

TEST(Batches, SamplesProcessedAreThoseVisited) {
  const auto comm = make_single_communicator();
  const Federation federation = split_federation(*comm);
  for (const int64_t steps : {0, 1, 2, 7, 30}) {
    for (const int64_t batch : {0, 1, 3, 5, 64}) {
      for (const bool drop_last : {false, true}) {
        const ClientOptions options{
            {.epochs = 2, .steps = steps, .batch = batch, .drop_last = drop_last}};
        for (int64_t c = 0; c < 7; ++c) {
          EXPECT_EQ(samples_processed(options, federation.train(c).size()),
                    static_cast<int64_t>(visited(federation, options, c).size()))
              << steps << " steps of " << batch << ", client " << c;
        }
      }
    }
  }
}

std::vector<int64_t> batches_of(const Federation& federation, const ClientOptions& options,
                                int64_t client) {
  Recorder model;
  OneRound p({1}, 0);
  p.train(*make_sgd(options, federation, model), client);
  return model.rows;
}

// A client's epochs over many rounds: a share makes fewer, each number as often.
TEST(Batches, StragglersMakeAPartOfTheirEpochs) {
  const ClientOptions options{{.epochs = 5, .stragglers = 0.5}};
  constexpr int64_t kRounds = 20000, kSamples = 45, kBatches = 3;  // of 20
  std::vector<int64_t> made(6);
  for (int64_t round = 1; round <= kRounds; ++round) {
    const int64_t steps =
        steps_of_task(options, {.client = 7, .round = round, .seed = 3}, kSamples);
    ASSERT_EQ(steps % kBatches, 0);
    ++made[static_cast<std::size_t>(steps / kBatches)];
  }
  const double deviation = std::sqrt(kRounds * 0.1 * 0.9);
  EXPECT_EQ(made[0], 0);
  for (std::size_t epochs = 1; epochs < 5; ++epochs) {
    EXPECT_NEAR(made[epochs], kRounds * 0.1, 5 * deviation) << epochs;
  }
  EXPECT_NEAR(made[5], kRounds * 0.6, 5 * std::sqrt(kRounds * 0.6 * 0.4));
  EXPECT_EQ(steps_of_task({.epochs = 5}, {.client = 7, .round = 1, .seed = 3}, kSamples), 15);
  const ClientOptions steps{{.steps = 7, .stragglers = 1}};
  std::set<int64_t> numbers;
  for (int64_t round = 1; round <= 200; ++round) {
    numbers.insert(steps_of_task(steps, {.client = 7, .round = round, .seed = 3}, kSamples));
  }
  EXPECT_EQ(numbers, (std::set<int64_t>{1, 2, 3, 4, 5, 6, 7}));
}

// What is trained is what steps_of_task() says.
TEST(Batches, AStragglerStopsEarly) {
  const auto comm = make_single_communicator();
  const Federation federation = split_federation(*comm);
  const ClientOptions options{{.epochs = 30, .batch = 0, .stragglers = 1}};
  const auto trained = std::ssize(batches_of(federation, options, 2));
  EXPECT_LT(trained, 30);
  OneRound p({1}, 0);
  EXPECT_EQ(trained, steps_of_task(options, p.task(2, 1), federation.train(2).size()));
}

TEST(Batches, ALastBatchThatIsSmallerMayBeLeftOut) {
  const auto comm = make_single_communicator();
  const Federation federation = split_federation(*comm);
  const int64_t samples = federation.train(2).size();
  ASSERT_GT(samples, 4);
  ClientOptions options{{.epochs = 2, .batch = samples - 1}};
  EXPECT_EQ(batches_of(federation, options, 2),
            (std::vector<int64_t>{samples - 1, 1, samples - 1, 1}));
  options.drop_last = true;
  EXPECT_EQ(batches_of(federation, options, 2), (std::vector<int64_t>{samples - 1, samples - 1}));
  EXPECT_EQ(local_steps(options, samples), 2);
  options.epochs = 100;  // each in an order of its own: no sample is left out for good
  std::vector<float> seen = visited(federation, options, 2);
  seen.erase(std::unique(seen.begin(), seen.end()), seen.end());
  EXPECT_EQ(seen, first_features(federation, 2, 3));
  options.epochs = 2;
  for (const int64_t batch : {samples, samples + 1, int64_t{0}}) {  // all in one batch
    options.batch = batch;
    EXPECT_EQ(batches_of(federation, options, 2), (std::vector<int64_t>{samples, samples}));
  }
  options = {{.epochs = 1, .batch = 4, .drop_last = true, .pooled = true}};
  EXPECT_EQ(batches_of(federation, options, 0),
            std::vector<int64_t>(static_cast<std::size_t>(federation.train_samples() / 4), 4));
}

// (training, rows) of the trials.
std::set<std::pair<bool, int64_t>> sizes_of(const std::vector<BatchTrial>& trials) {
  std::set<std::pair<bool, int64_t>> sizes;
  for (const BatchTrial& trial : trials) {
    EXPECT_TRUE(sizes.emplace(trial.training, trial.rows).second) << "twice";
  }
  return sizes;
}

TEST(BatchTrials, AreTheSizesThatTrainingVisits) {
  const auto comm = make_single_communicator();
  const Federation federation = split_federation(*comm);
  const Recorder model;
  for (const int64_t steps : {0, 1, 3, 30}) {
    for (const int64_t batch : {0, 1, 3, 5, 64}) {
      for (const bool drop_last : {false, true}) {
        const ClientOptions options{
            {.epochs = 2, .steps = steps, .batch = batch, .drop_last = drop_last}};
        std::set<int64_t> expected, found;
        for (int64_t c = 0; c < 7; ++c) {
          for (const int64_t rows : batches_of(federation, options, c)) expected.insert(rows);
        }
        for (const auto& [training, rows] :
             sizes_of(batch_trials(options, federation, model, 7, 0))) {
          if (training) found.insert(rows);
        }
        EXPECT_EQ(found, expected) << steps << " steps of " << batch << ", " << drop_last;
      }
    }
  }
  const ClientOptions pooled{{.batch = federation.train_samples() - 2, .pooled = true}};
  const auto sizes = sizes_of(batch_trials(pooled, federation, model, 7, 0));
  EXPECT_TRUE(sizes.contains({true, 2}));
  EXPECT_TRUE(sizes.contains({true, pooled.batch}));
  EXPECT_TRUE(sizes.contains({false, federation.test(3).size()}));
  EXPECT_TRUE(sizes.contains({false, federation.train(3).size()}));
}

TEST(BatchTrials, AreTheSizesThatLossesAreMeasuredOn) {
  const auto comm = make_single_communicator();
  const Federation federation = split_federation(*comm);
  const auto sizes = [&](int64_t batches) {
    return sizes_of(batch_trials({.batch = 1}, federation, Recorder(), 7, batches));
  };
  bool more = false;
  for (int64_t batches = 1; batches <= 30; ++batches) {
    auto expected = sizes(0);
    for (int64_t c = 0; c < 7; ++c) {
      more |= expected.emplace(false, std::min(batches, federation.train(c).size())).second;
    }
    EXPECT_EQ(sizes(batches), expected);
  }
  EXPECT_TRUE(more) << "the federation shows nothing";
}

TEST(BatchTrials, HaveEverySizeThatStreamsHave) {
  const auto comm = make_single_communicator();
  const Federation federation = split_federation(*comm);
  std::set<std::pair<bool, int64_t>> expected;
  for (int64_t c = 0; c < 7; ++c) {
    for (int64_t t = 1; t <= 3; ++t) {
      for (const bool training : {true, false}) {
        const int64_t n = (training ? federation.train(c) : federation.test(c)).size();
        if (const int64_t rows = n * t / 3 - n * (t - 1) / 3; rows > 0) {
          expected.emplace(training, rows);
        }
      }
    }
  }
  EXPECT_EQ(sizes_of(stream_trials(federation, 3, 0)), expected);
  // Steps of two samples: pairs, and what is left of a batch.
  std::set<std::pair<bool, int64_t>> of_steps;
  for (const auto& [training, rows] : expected) {
    if (!training) of_steps.emplace(false, rows);
    if (training && rows >= 2) of_steps.emplace(true, 2);
    if (training && rows % 2 == 1) of_steps.emplace(true, 1);
  }
  EXPECT_EQ(sizes_of(stream_trials(federation, 3, 2)), of_steps);
}

// Cannot train on one sample, as batch norm, nor evaluate two.
class Choosy final : public Model {
 public:
  Choosy() { layout_.add("w", {1}, 1); }
  double loss_and_gradient(std::span<const float>, const Batch& batch, RandomStream&,
                           std::span<float>) override {
    if (batch.rows == 1) throw std::runtime_error("more than 1 value\nat line 3");
    return 0;
  }
  double sgd_step(std::span<float>, const Batch&, RandomStream&, double, double) override {
    return 0;
  }
  EvaluationSums evaluate(std::span<const float>, const Batch& batch, SampleResults) override {
    if (batch.rows == 2) throw Error("not two");
    return {};
  }
};

TEST(BatchTrials, NameTheClient) {
  const auto comm = make_single_communicator();
  const Federation federation = split_federation(*comm);
  Choosy model;
  const int64_t samples = federation.train(2).size();
  const auto fails = [&](const BatchTrial& trial, std::initializer_list<std::string> parts) {
    expect_error<InvalidArgument>([&] { try_batch(trial, federation, model); }, parts);
  };
  const auto rest = [&](const ClientOptions& options) {
    for (const BatchTrial& trial : batch_trials(options, federation, model, 7, 0)) {
      if (trial.training && trial.rows == 1) return trial;
    }
    return BatchTrial{};
  };
  fails(rest({{.batch = samples - 1}}),
        {"training: more than 1 value; hint: ", "client.drop-last"});
  fails(rest({{.batch = 1}}), {"hint: use another client.batch"});
  fails({.rows = 1, .client = 5, .hint = "no"}, {"client 5, training: more than 1 value"});
  fails({.rows = 2, .client = 4, .training = false}, {"client 4, evaluation: not two"});
  EXPECT_NO_THROW(try_batch({.rows = 1000, .client = 4}, federation, model));
  EXPECT_NO_THROW(try_batch({.rows = 1, .client = 4, .training = false}, federation, model));
}

}  // namespace
}  // namespace hanse
