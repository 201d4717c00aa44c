// Clients side by side against make_sgd, one after the other.
#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "client/cohort_cases.hpp"
#include "data/support.hpp"
#include "hanse/client/updates.hpp"
#include "support/errors.hpp"

namespace hanse {
namespace {

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
  expect_agreement({.model = kind("cnn-mcmahan"), .shape = {2, 6, 7}}, "cnn-mcmahan");
  expect_agreement({.model = kind("cnn-byzfl"), .shape = {2, 16, 17}}, "cnn-byzfl");
}

// A kind that devices train has a case of its own here, or in test_cohort_modules.cpp: without one
// another kind's network could be trained in its place.
TEST(CohortTraining, HasACaseOfEveryKindThatDevicesTrain) {
  const std::set<std::string> cases = {"linear",      "mlp",         "cnn-leaf", "cnn-cifar",
                                       "cnn-mcmahan", "cnn-byzfl",   "lenet",    "resnet18",
                                       "lstm",        "transformer", "graph"};
  for (const auto& row : model_kinds())
    EXPECT_NE(cases.contains(row.name), row.cpus_alone) << row.name;
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

// Tensors that nobody trains are the same for all clients; networks by hand have no such.
TEST(CohortTraining, EqualsSgdOfParts) {
  const auto expect_of = [](Case c, const TrainedPart& part, const std::string& what) {
    c.part = part;
    c.client.weight_decay = 0.1;
    expect_agreement(c, what);
  };
  const TrainedPart head{.train = {"fc*"}}, adapters{.rank = 2, .layers = {"*"}};
  expect_of({.model = kind("linear")}, {.train = {"*bias"}}, "linear's bias");
  expect_of({.model = kind("mlp")}, adapters, "mlp's adapters");
  expect_of({.model = kind("mlp")}, {.rank = 2, .layers = {"*"}, .scale = 3}, "scaled adapters");
  expect_of({.model = kind("mlp")}, {.train = {"*.lora_B"}, .rank = 2, .layers = {"*"}},
            "factors B alone");
  expect_of({.model = kind("lenet"), .shape = {2, 12, 13}}, head, "lenet's head");
  expect_of({.model = kind("lenet"), .shape = {2, 12, 13}},
            {.train = {"conv1*"}, .rank = 2, .layers = {"*"}}, "lenet's start and adapters");
  for (const char* name : {"lstm", "transformer"}) {
    const Case c{.model = sequences(name, 0.25, 1), .shape = {7}, .tokens = 11};
    expect_of(c, adapters, name + std::string(" with adapters"));
  }
  ModelOptions resnet = kind("resnet18");
  resnet.channels = 4;
  resnet.groups = 2;
  Case c{.model = resnet, .shape = {2, 9, 8}};
  c.client.steps = 3;
  expect_of(c, {.train = {"layer4*", "fc*"}}, "resnet18's end");
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
                     o.schedule = {.kind = "cosine", .over = ScheduleOver::kSteps, .warmup = 2};
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

// Nothing of an earlier cohort is left; a client's neighbours move its last bits alone, where a
// library has other kernels for fewer clients.
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
    EXPECT_LE(furthest(first.rows[0], with_others.rows[0]), 1e-6F);
    EXPECT_NE(first.rows[0], first.rows[2]);
  }
}

// Three batches come together.
TEST(CohortTraining, WaitsOnceForAnEvaluation) {
  const Case c{.model = kind("mlp")};
  const auto comm = make_single_communicator();
  const Federation federation = unequal_federation(*comm, c);
  for (const std::string& device : test_devices()) {
    for (const int64_t bytes : {kAllSamples, int64_t{0}}) {
      CohortTraining training(c.client, federation, c.model, device, 2, bytes);
      training.cohort().theta().fill_(0.25);
      const EvaluationSums one = training.chosen(3, std::vector<int32_t>{1});
      const int64_t before = torch_library().downloads();
      const EvaluationSums many = training.chosen(3, std::vector<int32_t>(1300, 1));
      EXPECT_EQ(torch_library().downloads() - before, 1);
      EXPECT_EQ(many.samples, 1300);
      EXPECT_NEAR(many.loss, 1300 * one.loss, 1e-4 * many.loss);
      EXPECT_EQ(many.correct, 1300 * one.correct);
    }
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

// The model overflows on them.
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
  const Case c{.model = kind("linear"), .client = {{.epochs = 1, .batch = 1}, {.lr = 0.05}}};
  for (const std::string& device : test_devices()) {
    CohortTraining training(c.client, federation, c.model, device, 2, kAllSamples);
    training.cohort().theta().fill_(0);
    const Trained trained = train_on_device(training, {0, 1}, 1);
    EXPECT_FALSE(std::isfinite(trained.rows[0][0] * 3e20F)) << device;
    for (const float value : trained.rows[0]) EXPECT_TRUE(std::isfinite(value)) << device;
    EXPECT_TRUE(std::isfinite(trained.outcomes[0].loss)) << device;
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

// The first of equal logits is the guess; an evaluation leaves training as it is.
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

}  // namespace
}  // namespace hanse
