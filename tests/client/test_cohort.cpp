// Clients side by side against make_sgd, one after the other.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "client/support.hpp"
#include "data/support.hpp"
#include "hanse/client/cohort_training.hpp"
#include "hanse/client/cohort_update.hpp"
#include "hanse/model/model.hpp"
#include "support/devices.hpp"
#include "support/errors.hpp"
#include "support/thread_communicator.hpp"

namespace hanse {
namespace {

using Row = std::vector<float>;

constexpr uint64_t kSeed = 5;
constexpr int64_t kAllSamples = int64_t{1} << 30;  // of the device's memory

struct Case {
  ModelOptions model;
  std::vector<int64_t> shape = {4};
  int64_t classes = 3;
  ClientOptions client = {.epochs = 2, .batch = 4, .lr = 0.05};
  int64_t tokens = 0;         // of sequences
  bool starts_blank = false;  // the first tensor at zero, the others in steps of 1/64
};

// Clients with 1, 3, 7 or 10 samples.
Federation unequal_federation(Communicator& comm, const Case& c) {
  DataOptions data;
  data.kind = "random";
  data.shape = c.shape;
  data.classes = c.classes;
  data.tokens = c.tokens;
  data.test_fraction = 0;
  FederationOptions options;
  options.clients = 7;
  options.partition = "sizes";
  options.sizes = {1, 3, 7, 10};
  options.size_probabilities = {0.25, 0.25, 0.25, 0.25};
  return Federation::load(data, options, kSeed, comm);
}

struct Trained {
  std::vector<Row> rows;
  std::vector<ClientOutcome> outcomes;
};

Row initial_row(Model& model, const Case& c) {
  Row row(static_cast<std::size_t>(model.n_params()));
  RandomStream stream(kSeed, Purpose::kInitialize);
  model.initialize(row, stream);
  if (!c.starts_blank) return row;
  // Of so few bits that a convolution's sums are exact: what is equal stays so, whatever the order
  // in which a processor's kernels add.
  for (float& value : row) value = std::round(value * 64) / 64;
  std::fill_n(row.begin(), model.layout().slots().front().size, 0.0F);
  return row;
}

Trained one_by_one(const Case& c, const Federation& federation, const std::vector<int64_t>& clients,
                   int64_t round) {
  const auto model = make_model(c.model, federation.sample_shape(), federation.classes());
  const auto update = make_sgd(c.client, federation, *model);
  Trained trained;
  for (const int64_t client : clients) {
    Row& row = trained.rows.emplace_back(initial_row(*model, c));
    trained.outcomes.push_back(
        update->train({.client = client, .round = round, .seed = kSeed, .row = row}));
  }
  return trained;
}

std::vector<ClientTask> tasks_of(const std::vector<int64_t>& clients, int64_t round) {
  std::vector<ClientTask> tasks;
  for (const int64_t client : clients) {
    tasks.push_back({.client = client, .round = round, .seed = kSeed});
  }
  return tasks;
}

Trained rows_of(CohortTraining& training, const std::vector<int64_t>& clients,
                std::vector<ClientOutcome> outcomes) {
  Trained trained{.outcomes = std::move(outcomes)};
  const at::Tensor rows = training.cohort().rows().cpu();
  const auto width = static_cast<std::size_t>(rows.size(1));
  for (std::size_t i = 0; i < clients.size(); ++i) {
    const float* first = rows.data_ptr<float>() + i * width;
    trained.rows.emplace_back(first, first + width);
  }
  return trained;
}

Trained train_on_device(CohortTraining& training, const std::vector<int64_t>& clients,
                        int64_t round) {
  return rows_of(training, clients, training.train(tasks_of(clients, round)));
}

Trained side_by_side(const Case& c, const Federation& federation,
                     const std::vector<int64_t>& clients, int64_t round, const std::string& device,
                     int64_t places, int64_t sample_bytes = kAllSamples) {
  CohortTraining training(c.client, federation, c.model, device, places, sample_bytes);
  const auto model = make_model(c.model, federation.sample_shape(), federation.classes());
  Row theta = initial_row(*model, c);
  training.cohort().put_theta(theta);
  const auto update = make_sgd(c.client, federation, *model);
  const auto cohort = update->cohort_update(training, model->n_params());
  return rows_of(training, clients, cohort->train(tasks_of(clients, round), theta));
}

void expect_agreement(const Case& c, const std::string& what) {
  const auto comm = make_single_communicator();
  const Federation federation = unequal_federation(*comm, c);
  const std::vector<int64_t> clients{3, 0, 6, 5, 1};
  constexpr int64_t kRound = 2;
  const Trained expected = one_by_one(c, federation, clients, kRound);
  for (const std::string& device : test_devices()) {
    for (const int64_t places : {5, 6}) {
      const Trained got = side_by_side(c, federation, clients, kRound, device, places);
      for (std::size_t i = 0; i < clients.size(); ++i) {
        const std::string who = what + " on " + device + ", client " + std::to_string(clients[i]);
        EXPECT_EQ(got.outcomes[i].samples, expected.outcomes[i].samples) << who;
        EXPECT_NEAR(got.outcomes[i].loss, expected.outcomes[i].loss, 1e-5) << who;
        float furthest = 0;
        for (std::size_t j = 0; j < expected.rows[i].size(); ++j) {
          furthest = std::max(furthest, std::abs(got.rows[i][j] - expected.rows[i][j]));
        }
        EXPECT_LE(furthest, 1e-5F) << who;
      }
    }
  }
}

ModelOptions kind(const std::string& name, const std::string& loss = "cross-entropy") {
  ModelOptions options;
  options.kind = name;
  options.loss = loss;
  options.hidden = {7, 5};
  return options;
}

TEST(CohortTraining, ClientsAreOfAwkwardSizes) {
  const auto comm = make_single_communicator();
  const Federation federation = unequal_federation(*comm, {.model = kind("linear")});
  std::vector<int64_t> sizes;
  for (const int64_t client : {3, 0, 6, 5, 1}) sizes.push_back(federation.train(client).size());
  EXPECT_EQ(sizes, (std::vector<int64_t>{7, 1, 3, 1, 7}));  // by batches of 4
}

TEST(CohortTraining, EqualsSgdClientByClient) {
  expect_agreement({.model = kind("linear")}, "linear");
  ModelOptions no_bias = kind("linear");
  no_bias.bias = false;
  expect_agreement({.model = no_bias}, "linear without bias");
  expect_agreement({.model = kind("mlp")}, "mlp");
  Case many{.model = kind("linear")};
  many.client.steps = 70;
  expect_agreement(many, "many steps");
  expect_agreement({.model = kind("lenet"), .shape = {2, 12, 13}}, "lenet");
  expect_agreement({.model = kind("cnn-leaf"), .shape = {1, 9, 10}}, "cnn-leaf");
  expect_agreement({.model = kind("cnn-cifar"), .shape = {3, 8, 9}}, "cnn-cifar");
}

ModelOptions sequences(const std::string& name, double dropout, int64_t layers) {
  ModelOptions options = kind(name);
  options.vocabulary = 11;
  options.embedding = 6;
  options.units = 5;
  options.layers = layers;
  options.heads = 2;
  options.dropout = dropout;
  return options;
}

TEST(CohortTraining, EqualsSgdOfDeepNetworks) {
  ModelOptions resnet = kind("resnet18");
  resnet.channels = 4;
  resnet.groups = 2;
  Case c{.model = resnet, .shape = {2, 9, 8}};
  c.client.steps = 3;
  expect_agreement(c, "resnet18");
  for (const char* name : {"lstm", "transformer"}) {
    for (const double dropout : {0.0, 0.25}) {
      for (const int64_t layers : {1, 2}) {
        expect_agreement({.model = sequences(name, dropout, layers), .shape = {7}, .tokens = 11},
                         name + std::to_string(dropout));
      }
    }
  }
}

// A token beyond the vocabulary is found when it goes to the device, not by a kernel.
TEST(CohortTraining, NoTokenOfTheVocabularyIsNamed) {
  const Case c{.model = sequences("lstm", 0, 1), .shape = {7}, .tokens = 12};
  const auto comm = make_single_communicator();
  const Federation federation = unequal_federation(*comm, c);
  expect_error<Error>([&] { CohortTraining(c.client, federation, c.model, "cpu", 2, kAllSamples); },
                      {"11 is no token", "model.vocabulary"});
}

// Without weights all of a channel is its bias, and every pooling window a tie; behind the first
// step rounding decides.
TEST(CohortTraining, EqualsSgdWhereValuesAreEqual) {
  for (const char* name : {"lenet", "cnn-leaf"}) {
    Case c{.model = kind(name), .shape = {1, 12, 13}, .starts_blank = true};
    c.client.steps = 1;
    expect_agreement(c, name);
  }
}

TEST(CohortTraining, EqualsSgdForEveryLoss) {
  expect_agreement({.model = kind("mlp", "binary-logistic"), .classes = 2}, "binary-logistic");
  expect_agreement({.model = kind("mlp", "squared-error"), .classes = 0}, "squared-error");
}

TEST(CohortTraining, EqualsSgdForEveryOption) {
  const auto with = [](auto change) {
    Case c{.model = kind("mlp")};
    change(c.client);
    return c;
  };
  expect_agreement(with([](ClientOptions& o) { o.momentum = 0.9; }), "momentum");
  expect_agreement(with([](ClientOptions& o) { o.weight_decay = 0.3; }), "weight decay");
  expect_agreement(with([](ClientOptions& o) { o.clip = 0.4; }), "clip");
  expect_agreement(with([](ClientOptions& o) { o.kind = "prox", o.mu = 2; }), "prox");
  expect_agreement(with([](ClientOptions& o) {
                     o.kind = "prox", o.mu = 1, o.momentum = 0.5, o.weight_decay = 0.1,
                     o.clip = 0.5;
                   }),
                   "all of them");
  expect_agreement(with([](ClientOptions& o) { o.batch = 0; }), "full batches");
  expect_agreement(with([](ClientOptions& o) { o.drop_last = true; }), "whole batches");
  expect_agreement(with([](ClientOptions& o) { o.steps = 5; }), "steps");
  expect_agreement(with([](ClientOptions& o) { o.lr_decay = 0.5; }), "decaying rate");
  expect_agreement(with([](ClientOptions& o) {
                     o.schedule = {.kind = "cosine", .over = "steps", .warmup = 2};
                     o.epochs = 3;
                   }),
                   "a rate that moves with the steps");
}

// One mini-batch after the other, or all samples at once on the device.
// Nor does it matter how many steps the device is told of at once: many, or one.
TEST(CohortTraining, WhereSamplesLieDoesNotMatter) {
  for (const int64_t classes : {3, 0}) {
    Case c{.model = kind("mlp", classes > 0 ? "cross-entropy" : "squared-error"),
           .classes = classes};
    c.client.steps = 70;
    const auto comm = make_single_communicator();
    const Federation federation = unequal_federation(*comm, c);
    for (const std::string& device : test_devices()) {
      const Trained all = side_by_side(c, federation, {3, 0, 6, 5, 1}, 2, device, 6);
      const Trained none = side_by_side(c, federation, {3, 0, 6, 5, 1}, 2, device, 6, 0);
      EXPECT_EQ(all.rows, none.rows);
      for (std::size_t i = 0; i < all.outcomes.size(); ++i) {
        EXPECT_EQ(all.outcomes[i].loss, none.outcomes[i].loss);
      }
    }
  }
}

// Nothing of an earlier cohort is left, and a client's neighbours do not matter.
TEST(CohortTraining, IsAPureFunctionOfItsTasks) {
  Case c{.model = kind("cnn-cifar"), .shape = {3, 8, 9}};
  c.client.momentum = 0.9;
  const auto comm = make_single_communicator();
  const Federation federation = unequal_federation(*comm, c);
  for (const std::string& device : test_devices()) {
    CohortTraining training(c.client, federation, c.model, device, 3, kAllSamples);
    training.cohort().theta().fill_(0.01);
    const Trained first = train_on_device(training, {3, 0, 6}, 1);
    train_on_device(training, {5, 1}, 2);
    const Trained again = train_on_device(training, {3, 0, 6}, 1);
    const Trained with_others = train_on_device(training, {3, 4}, 1);
    EXPECT_EQ(first.rows, again.rows);
    EXPECT_EQ(first.outcomes[1].loss, again.outcomes[1].loss);
    EXPECT_EQ(first.rows[0], with_others.rows[0]);
    EXPECT_NE(first.rows[0], first.rows[2]);
  }
}

// Places without a client stay where they started.
TEST(CohortTraining, EmptyPlacesRest) {
  const Case c{.model = kind("mlp")};
  const auto comm = make_single_communicator();
  const Federation federation = unequal_federation(*comm, c);
  for (const std::string& device : test_devices()) {
    CohortTraining training(c.client, federation, c.model, device, 3, kAllSamples);
    training.cohort().theta().fill_(0.25);
    train_on_device(training, {3, 0, 6}, 1);
    train_on_device(training, {5}, 2);
    EXPECT_TRUE(at::equal(training.cohort().rows().cpu()[1], training.cohort().theta().cpu()));
    EXPECT_FALSE(at::equal(training.cohort().rows().cpu()[0], training.cohort().theta().cpu()));
  }
}

// Of a model that overflows on them.
TEST(CohortTraining, SamplesOfOthersDoNotFillABatch) {
  const TempFolder folder;
  std::string text = "label,client,x\n0,a,1\n1,a,2\n";
  for (int i = 0; i < 6; ++i) text += "1,b,3e38\n";
  const DataOptions data{.kind = "csv",
                         .path = folder.write("two.csv", text),
                         .test_fraction = 0,
                         .client_column = "client"};
  const auto comm = make_single_communicator();
  const Federation federation = Federation::load(data, {.partition = "by-column"}, kSeed, *comm);
  const Case c{.model = kind("linear")};
  for (const std::string& device : test_devices()) {
    for (const int64_t sample_bytes : {int64_t{0}, kAllSamples}) {
      CohortTraining training(c.client, federation, c.model, device, 1, sample_bytes);
      training.cohort().theta().fill_(2);
      EXPECT_FALSE(std::isfinite(training.range(federation.train(1)).loss));
      const Trained trained = train_on_device(training, {0}, 1);
      EXPECT_TRUE(std::isfinite(trained.rows[0][0])) << device << " " << sample_bytes;
    }
  }
}

// Its one step leads to a model that overflows on its sample; the steps of others go on.
TEST(CohortTraining, AClientThatHasFinishedIsLeftAlone) {
  const TempFolder folder;
  const DataOptions data{
      .kind = "csv",
      .path = folder.write("two.csv", "label,client,x\n0,a,3e20\n0,b,1\n1,b,2\n1,b,3\n"),
      .test_fraction = 0,
      .client_column = "client"};
  const auto comm = make_single_communicator();
  const Federation federation = Federation::load(data, {.partition = "by-column"}, kSeed, *comm);
  const Case c{.model = kind("linear"), .client = {.epochs = 1, .batch = 1, .lr = 0.05}};
  for (const std::string& device : test_devices()) {
    CohortTraining training(c.client, federation, c.model, device, 2, kAllSamples);
    training.cohort().theta().fill_(0);
    const Trained trained = train_on_device(training, {0, 1}, 1);
    EXPECT_FALSE(std::isfinite(trained.rows[0][0] * 3e20F)) << device;
    for (const float value : trained.rows[0]) EXPECT_TRUE(std::isfinite(value)) << device;
    EXPECT_TRUE(std::isfinite(trained.outcomes[0].loss)) << device;
  }
}

// The model on the device as Model::evaluate() has it in the host's memory, one sample at a time.
void expect_evaluation(const Case& c, const std::string& what) {
  const auto comm = make_single_communicator();
  DataOptions data{.kind = "random", .test_fraction = 0.5, .shape = c.shape, .classes = c.classes};
  data.tokens = c.tokens;
  constexpr int64_t kSamples = 2 * CohortTraining::kEvaluationRows + 6;
  const FederationOptions options{.clients = 2, .partition = "iid", .samples = kSamples};
  const Federation federation = Federation::load(data, options, kSeed, *comm);
  const auto model = make_model(c.model, federation.sample_shape(), federation.classes());
  Row row = initial_row(*model, c);
  RowEvaluator expected(federation, *model);
  expected.at(row);
  const SampleRange ranges[] = {{0, 1}, {3, 10}, federation.train(0), federation.test(1)};
  for (const std::string& device : test_devices()) {
    for (const int64_t sample_bytes : {int64_t{0}, kAllSamples}) {
      CohortTraining training(c.client, federation, c.model, device, 3, sample_bytes);
      training.cohort().theta().copy_(at::from_blob(row.data(), {model->n_params()}, at::kFloat));
      const auto expect_sums = [&](const EvaluationSums& found, const EvaluationSums& sums) {
        EXPECT_EQ(found.samples, sums.samples) << what;
        EXPECT_EQ(found.correct, sums.correct) << what;
        EXPECT_NEAR(found.loss, sums.loss, 1e-6 * static_cast<double>(sums.samples)) << what;
      };
      for (const SampleRange& range : ranges) {
        const bool scored = c.classes == 2;
        std::vector<float> scores(static_cast<std::size_t>(range.size()));
        std::vector<float> expected_scores(scores.size());
        std::vector<int32_t> ranks(scores.size(), -1), expected_ranks(scores.size(), -2);
        std::vector<int32_t> classes(ranks), expected_classes(expected_ranks);
        expect_sums(
            training.range(range, {.scores = scored ? scores.data() : nullptr,
                                   .ranks = c.classes > 0 ? ranks.data() : nullptr,
                                   .classes = c.classes > 0 ? classes.data() : nullptr}),
            expected.range(range, {.scores = scored ? expected_scores.data() : nullptr,
                                   .ranks = c.classes > 0 ? expected_ranks.data() : nullptr,
                                   .classes = c.classes > 0 ? expected_classes.data() : nullptr}));
        if (c.classes > 0) {
          EXPECT_EQ(ranks, expected_ranks) << what;
          EXPECT_EQ(classes, expected_classes) << what;
        }
        for (std::size_t i = 0; i < scores.size(); ++i) {
          EXPECT_NEAR(scores[i], expected_scores[i], 1e-5) << what;
        }
      }
      const std::vector<int32_t> order{7, 2, 0, 11, 2};
      expect_sums(training.chosen(5, order), expected.chosen(5, order));
    }
  }
}

TEST(CohortTraining, EvaluatesAsTheModelDoes) {
  expect_evaluation({.model = kind("linear")}, "linear");
  expect_evaluation({.model = kind("mlp"), .classes = 2}, "mlp, two classes");
  expect_evaluation({.model = kind("mlp", "binary-logistic"), .classes = 2}, "binary-logistic");
  expect_evaluation({.model = kind("mlp", "squared-error"), .classes = 0}, "squared-error");
  expect_evaluation({.model = kind("lenet"), .shape = {2, 12, 13}}, "lenet");
  expect_evaluation({.model = kind("cnn-cifar"), .shape = {3, 8, 9}}, "with dropout");
  for (const char* name : {"lstm", "transformer"}) {
    expect_evaluation({.model = sequences(name, 0.5, 2), .shape = {7}, .tokens = 11}, name);
  }
}

// Of equal logits the first is the guess; and what is evaluated leaves training as it is.
TEST(CohortTraining, EvaluationOfABlankModel) {
  const Case c{.model = kind("linear")};
  const auto comm = make_single_communicator();
  const Federation federation = unequal_federation(*comm, c);
  const SampleRange range = federation.train(3);
  double zeros = 0;
  for (int64_t i = range.begin; i < range.end; ++i) {
    zeros += federation.labels()[static_cast<std::size_t>(i)] == 0 ? 1 : 0;
  }
  for (const std::string& device : test_devices()) {
    for (const int64_t sample_bytes : {int64_t{0}, kAllSamples}) {
      CohortTraining training(c.client, federation, c.model, device, 3, sample_bytes);
      training.cohort().theta().fill_(0);
      const Trained before = train_on_device(training, {3, 0}, 1);
      const EvaluationSums found = training.range(range);
      EXPECT_EQ(found.correct, zeros);
      EXPECT_NEAR(found.loss, std::log(3.0) * static_cast<double>(range.size()), 1e-5);
      EXPECT_EQ(train_on_device(training, {3, 0}, 1).rows, before.rows);
    }
  }
}

TEST(CohortTraining, ModelsWithoutBatchedFormAreRefused) {
  const auto comm = make_single_communicator();
  const Federation federation = unequal_federation(*comm, {});
  expect_error<InvalidArgument>(
      [&] { CohortTraining({}, federation, kind("torchscript"), "cpu", 2, kAllSamples); },
      {"clients of a torchscript cannot be trained side by side", "model.kind", "hint"});
}

}  // namespace
}  // namespace hanse
