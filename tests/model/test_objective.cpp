// Losses of the user's own: gradients, what they are given, and what is refused.
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <torch/script.h>

#include "hanse/base/error.hpp"
#include "hanse/model/threads.hpp"
#include "support.hpp"
#include "support/errors.hpp"
#include "support/objective_file.hpp"

namespace hanse {
namespace {

constexpr int64_t kRows = 5;

const std::string kCrossEntropy =
    "  loss = torch.cross_entropy_loss(logits, labels, None, 1, -100, 0.0)\n";

struct Trained {
  Trained(const std::string& kind, const std::string& loss, const std::string& objective,
          const std::vector<float>& received = {})
      : classes(classes_for(loss, 3)),
        model(make_model(small_options(kind, loss), small_shape(kind), classes)),
        samples(small_shape(kind), classes, kRows, 1,
                reads_tokens(kind) ? small_options(kind, loss).vocabulary : 0) {
    set_model_threads(1);
    if (objective.empty()) return;
    train_for(*model, objective, classes);
    model->receive({received.empty() ? initial_row(*model, 2) : received});
  }
  LossAndGradient at(const std::vector<float>& row) {
    return loss_and_gradient(*model, row, samples.batch());
  }

  int64_t classes;
  std::unique_ptr<Model> model;
  Samples samples;
};

const char* const kKinds[] = {"linear", "mlp", "lenet", "resnet18", "lstm", "transformer", "graph"};

TEST(Objective, TheSameFormulaIsTheSameLoss) {
  const auto same = objective_file("logits, labels, sample_weights",
                                   kCrossEntropy + "  return loss * sample_weights.mean()\n");
  for (const std::string kind : kKinds) {
    SCOPED_TRACE(kind);
    Trained plain(kind, "cross-entropy", ""), own(kind, "cross-entropy", same);
    const std::vector<float> row = initial_row(*plain.model);
    const LossAndGradient expected = plain.at(row), actual = own.at(row);
    EXPECT_NEAR(actual.loss, expected.loss, 1e-6);
    expect_close(plain.model->layout(), actual.gradient, expected.gradient, 4e-6);
    EXPECT_EQ(own.model->evaluate(row, own.samples.batch()).loss,
              plain.model->evaluate(row, plain.samples.batch()).loss);
    expect_step_is_update(*own.model, own.samples.batch(), 0.25);
    expect_gradient_in_place(*own.model, own.samples.batch());
    EXPECT_EQ(own.at(row).gradient, actual.gradient);  // the same bits
  }
  const auto squares =
      objective_file("labels, logits", "  return (logits.view(-1) - labels).square().mean() / 2\n");
  Trained plain("mlp", "squared-error", ""), own("mlp", "squared-error", squares);
  const std::vector<float> row = initial_row(*plain.model);
  EXPECT_NEAR(own.at(row).loss, plain.at(row).loss, 1e-6);
  expect_close(plain.model->layout(), own.at(row).gradient, plain.at(row).gradient, 2e-6);
}

// All that an objective may name, in a term each.
TEST(Objective, GradientsAreThoseOfDifferences) {
  const auto file = objective_file(
      "received_logits, row, labels, logits, received_row",
      kCrossEntropy +
          "  target = torch.softmax(received_logits / 2, 1)\n"
          "  distance = row - received_row\n"
          "  return (loss - (target * torch.log_softmax(logits / 2, 1)).sum() / logits.size(0)\n"
          "          + (logits @ self.prior).square().mean()\n"
          "          + 0.5 * (distance * distance).sum() + 0.1 * distance.pow(3).sum())\n");
  for (const std::string kind : {"linear", "mlp", "lenet", "transformer"}) {
    SCOPED_TRACE(kind);
    Trained trained(kind, "cross-entropy", file);
    const std::vector<float> row = initial_row(*trained.model);
    const std::vector<float> gradient = trained.at(row).gradient;
    double largest = 0;
    for (const float g : gradient) largest = std::max(largest, std::abs(static_cast<double>(g)));
    for (std::size_t i = 0; i < row.size(); i += row.size() / 23 + 1) {
      constexpr float kStep = 2e-3F;
      std::vector<float> up = row, down = row;
      up[i] += kStep;
      down[i] -= kStep;
      const double slope = (trained.at(up).loss - trained.at(down).loss) /
                           (static_cast<double>(up[i]) - static_cast<double>(down[i]));
      EXPECT_NEAR(gradient[i], slope, 1e-2 * largest) << i;
    }
    expect_step_is_update(*trained.model, trained.samples.batch(), 0.5);
    expect_gradient_in_place(*trained.model, trained.samples.batch());
  }
}

// mu/2 |row - received|^2 in closed form, alone and beside a term on the logits.
TEST(Objective, ATermOnTheRowAloneTrains) {
  const auto file =
      objective_file("row, received_row", "  return 2 * (row - received_row).square().sum()\n");
  for (const std::string kind : {"linear", "resnet18"}) {
    Trained trained(kind, "cross-entropy", file);
    const std::vector<float> row = initial_row(*trained.model);
    const std::vector<float> received = initial_row(*trained.model, 2);
    std::vector<float> expected;
    double loss = 0;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const double distance = static_cast<double>(row[i]) - static_cast<double>(received[i]);
      expected.push_back(static_cast<float>(4 * distance));
      loss += 2 * distance * distance;
    }
    EXPECT_NEAR(trained.at(row).loss, loss, 1e-5 * loss);
    expect_close(trained.model->layout(), trained.at(row).gradient, expected, 1e-6);
  }
}

TEST(Objective, ComparesWithTheLastRowReceived) {
  const auto file = objective_file("received_logits, logits",
                                   "  return (logits - received_logits).square().sum()\n");
  Trained trained("mlp", "cross-entropy", file);
  const std::vector<float> row = initial_row(*trained.model);
  EXPECT_GT(trained.at(row).loss, 0);
  trained.model->receive({row});
  EXPECT_EQ(trained.at(row).loss, 0);
}

// Batch norm's means are moved by the pass on the row, not by that on the received one; dropout
// draws the same masks in every call.
TEST(Objective, NetworksWithBuffersAndDropout) {
  const auto file = objective_file("received_logits, logits, labels",
                                   kCrossEntropy + "  return loss + received_logits.sum() * 0\n");
  for (const auto& [name, network] :
       {std::pair("batch norm", norm_graph()), {"dropout", dropout_graph()}}) {
    ModelOptions options = small_options("graph", "cross-entropy");
    options.path = written(network);
    const auto plain = make_model(options, {4}, 3), own = make_model(options, {4}, 3);
    train_for(*own, file, 3);
    const Samples samples({4}, 3, kRows);
    std::vector<float> expected = initial_row(*plain), actual = expected;
    own->receive({initial_row(*plain, 2)});
    RandomStream noise = noise_stream(), same = noise_stream();
    for (int step = 0; step < 3; ++step) {
      const double loss = plain->sgd_step(expected, samples.batch(), noise, 0.1, 0);
      EXPECT_NEAR(own->sgd_step(actual, samples.batch(), same, 0.1, 0), loss, 1e-6) << name;
      noise = noise_stream(static_cast<uint64_t>(step) + 1);
      same = noise_stream(static_cast<uint64_t>(step) + 1);
    }
    expect_close(plain->layout(), actual, expected, 1e-5);
  }
}

void expect_refused(const std::string& file, std::initializer_list<std::string> parts) {
  const auto model = make_model(small_options("linear", "cross-entropy"), {1, 12, 12}, 3);
  expect_error<InvalidArgument>([&] { train_for(*model, file, 3); }, parts);
}

TEST(Objective, WhatIsNoObjectiveIsRefused) {
  expect_refused("none.pt", {"no such file: none.pt", "client.objective", "export-objective"});
  expect_refused(objective_file("logits, target", "  return logits.sum()\n"),
                 {"forward has the argument target",
                  "known: logits, labels, sample_weights, row, "
                  "received_row, received_logits"});
  expect_refused(objective_file("labels", "  return labels.sum()\n"), {"neither logits nor row"});
  expect_refused(objective_file("logits", "  return logits.sum().detach()\n"),
                 {"depends on neither logits nor row", "the loss of a batch"});
  expect_refused(objective_file("logits", "  return logits\n"),
                 {"6 values of type Float, not one"});
  expect_refused(objective_file("logits", "  return logits.double().sum()\n"), {"type Double"});
  expect_refused(objective_file("logits", "  return (logits.sum(), 1)\n"), {"it returns Tuple"});
  expect_refused(objective_file("logits", "  return (logits @ torch.ones([7])).sum()\n"),
                 {"no loss of 2 samples with 3 logits each"});
  const auto model = make_model(small_options("linear", "cross-entropy"), {1, 12, 12}, 3);
  train_for(*model, objective_file("logits", "  return logits.view(2, 3).sum()\n"), 3);
  const Samples samples({1, 12, 12}, 3, kRows);
  expect_error<Error>([&] { loss_and_gradient(*model, initial_row(*model), samples.batch()); },
                      {"the objective fails on a batch of 5"});
}

}  // namespace
}  // namespace hanse
