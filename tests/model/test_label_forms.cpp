// Several labels a sample, several outputs, a class a position: losses and models against slow
// references and differences.
#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/base/error.hpp"
#include "model/loss.hpp"
#include "support.hpp"
#include "support/errors.hpp"

namespace hanse {
namespace {

const LabelForm kSeveralLabels(0, 3, true), kSeveralOutputs(0, 3), kSequence(4, 5);

struct FormCase {
  std::string loss;
  LabelForm form;
};
const std::vector<FormCase> kForms = {{"binary-logistic", kSeveralLabels},
                                      {"squared-error", kSeveralOutputs},
                                      {"cross-entropy", kSequence}};

double slow_term(const FormCase& c, const std::vector<double>& z, const Batch& batch, int64_t i) {
  const auto at = static_cast<std::size_t>(i);
  if (c.loss == "squared-error") return std::pow(z[at] - batch.targets[i], 2) / 2;
  if (c.loss == "binary-logistic") {
    return std::log1p(std::exp(batch.targets[i] == 1 ? -z[at] : z[at]));
  }
  if (batch.labels[i] < 0) return 0;
  const auto first = at * static_cast<std::size_t>(c.form.classes);
  double sum = 0;
  for (std::size_t k = 0; k < static_cast<std::size_t>(c.form.classes); ++k) {
    sum += std::exp(z[first + k]);
  }
  return std::log(sum) - z[first + static_cast<std::size_t>(batch.labels[i])];
}

// The mean over the samples of the mean over the values of each one's label.
double slow_loss(const FormCase& c, const std::vector<double>& z, const Batch& batch) {
  double loss = 0;
  for (int64_t r = 0; r < batch.rows; ++r) {
    double sum = 0, terms = 0;
    for (int64_t i = r * c.form.values; i < (r + 1) * c.form.values; ++i) {
      sum += slow_term(c, z, batch, i);
      terms += batch.labels == nullptr || batch.labels[i] >= 0 ? 1 : 0;
    }
    loss += sum / terms;
  }
  return loss / static_cast<double>(batch.rows);
}

TEST(LabelForms, LossesAndDeltasFollowFromTheDefinition) {
  for (const FormCase& c : kForms) {
    SCOPED_TRACE(c.loss);
    const LossPtr loss = make_loss(c.loss, c.form);
    const Samples samples({1}, c.form, 70);
    const Batch batch = samples.batch();
    RandomStream stream(7, Purpose::kData);
    std::vector<double> z(static_cast<std::size_t>(batch.rows * loss->logits()));
    for (double& v : z) v = static_cast<double>(static_cast<float>(2 * stream.normal()));
    std::vector<float> delta(z.begin(), z.end());
    const double found = loss->loss_and_delta(batch, delta.data()) / 70;
    EXPECT_NEAR(found, slow_loss(c, z, batch), 1e-6 * found);
    for (std::size_t i = 0; i < z.size(); i += 7) {
      const double h = 1e-5;
      std::vector<double> up = z, down = z;
      up[i] += h;
      down[i] -= h;
      const double slope = (slow_loss(c, up, batch) - slow_loss(c, down, batch)) / (2 * h);
      ASSERT_NEAR(static_cast<double>(delta[i]), slope, 2e-8) << i;
    }
  }
}

// The derivative of the last layer's gradient along itself, where the loss has no kinks.
TEST(LabelForms, HessiansMatchDifferencesOfGradients) {
  for (const std::string kind : {"linear", "mlp", "lenet"}) {
    for (const FormCase& c : {kForms[0], kForms[1]}) {
      SCOPED_TRACE(kind + " " + c.loss);
      const std::vector<int64_t> shape = {1, 12, 12};
      const auto model = make_model(small_options(kind, c.loss), shape, c.form);
      const Samples samples(shape, c.form, 9);
      const std::vector<float> row = initial_row(*model);
      const auto size = static_cast<std::ptrdiff_t>(row.size());
      const auto first = model->layout().slots().rbegin()[1].offset;
      std::vector<float> v(row.size()), product(row.size()), up = row, down = row;
      RandomStream stream(3, Purpose::kData);
      for (auto i = first; i < size; ++i) {
        const auto at = static_cast<std::size_t>(i);
        v[at] = static_cast<float>(stream.normal());
        up[at] += 0x1p-7F * v[at];
        down[at] -= 0x1p-7F * v[at];
      }
      model->hessian_vector(row, samples.batch(), v, product);
      const auto above = loss_and_gradient(*model, up, samples.batch()).gradient;
      const auto below = loss_and_gradient(*model, down, samples.batch()).gradient;
      std::vector<float> slope = product;
      for (auto i = first; i < size; ++i) {
        const auto at = static_cast<std::size_t>(i);
        slope[at] = (above[at] - below[at]) / 0x1p-6F;
      }
      expect_close(model->layout(), product, slope, 5e-3);
    }
  }
}

struct NetworkOfForm {
  std::string kind;
  FormCase form;
  std::vector<int64_t> shape;
  double dropout = 0;
};

std::vector<NetworkOfForm> model_cases() {
  std::vector<NetworkOfForm> cases;
  for (const FormCase& form : {kForms[0], kForms[1]}) {
    for (const std::string kind : {"linear", "mlp", "lenet", "lstm", "transformer"}) {
      cases.push_back({kind, form, small_shape(kind)});
    }
  }
  for (const std::string kind : {"lstm", "transformer"}) {
    for (const double dropout : {0.0, 0.25}) cases.push_back({kind, kForms[2], {5}, dropout});
  }
  return cases;
}

TEST(LabelForms, GradientsMatchDifferencesAndSteps) {
  for (const NetworkOfForm& c : model_cases()) {
    SCOPED_TRACE(c.kind + " " + c.form.loss);
    ModelOptions options = small_options(c.kind, c.form.loss);
    options.dropout = c.dropout;
    const auto model = make_model(options, c.shape, c.form.form);
    const Samples samples(c.shape, c.form.form, 4, 1, reads_tokens(c.kind) ? 11 : 0);
    expect_step_is_update(*model, samples.batch(), 0.1);
    expect_gradient_in_place(*model, samples.batch());
    const std::vector<float> row = initial_row(*model);
    const LossAndGradient center = loss_and_gradient(*model, row, samples.batch());
    for (const ParameterSlot& slot : model->layout().slots()) {
      double square = 0;
      std::vector<float> up = row, down = row;
      for (int64_t i = slot.offset; i < slot.offset + slot.size; ++i) {
        square += std::pow(static_cast<double>(center.gradient[static_cast<std::size_t>(i)]), 2);
      }
      const double norm = std::sqrt(square), h = std::min(2e-3, 2e-4 / norm);
      for (int64_t i = slot.offset; i < slot.offset + slot.size; ++i) {
        const auto at = static_cast<std::size_t>(i);
        const auto step = static_cast<float>(h * static_cast<double>(center.gradient[at]) / norm);
        up[at] += step;
        down[at] -= step;
      }
      const double slope = (loss_and_gradient(*model, up, samples.batch()).loss -
                            loss_and_gradient(*model, down, samples.batch()).loss) /
                           (2 * h);
      EXPECT_NEAR(slope, norm, 0.03 * norm + 5e-4) << slot.name;
    }
  }
}

// At each position the loss of the outputs is that of the samples, and tokens behind it change
// nothing.
TEST(LabelForms, PositionsDoNotLookAtThoseBehindThem) {
  constexpr std::size_t kLength = 5, kClasses = 4, kChanged = 3;
  for (const std::string kind : {"lstm", "transformer"}) {
    SCOPED_TRACE(kind);
    const auto model = make_model(small_options(kind, "cross-entropy"), {5}, kSequence);
    const std::vector<float> row = initial_row(*model);
    Samples samples({5}, kSequence, 2, 1, 11);
    std::vector<float> before(2 * kLength * kClasses), after = before;
    const EvaluationSums sums = model->evaluate(row, samples.batch(), {.outputs = before.data()});
    const std::vector<double> z(before.begin(), before.end());
    EXPECT_NEAR(sums.loss / 2, slow_loss(kForms[2], z, samples.batch()), 1e-6);
    EXPECT_NEAR(sums.loss / 2, loss_and_gradient(*model, row, samples.batch()).loss, 1e-6);
    float& token = samples.features[kLength + kChanged];  // of the second sample
    token = token == 0 ? 1 : 0;
    model->evaluate(row, samples.batch(), {.outputs = after.data()});
    for (std::size_t place = 0; place < 2 * kLength; ++place) {
      double moved = 0;
      for (std::size_t k = place * kClasses; k < (place + 1) * kClasses; ++k) {
        moved = std::max(moved, static_cast<double>(std::abs(before[k] - after[k])));
      }
      EXPECT_EQ(moved > 1e-4, place >= kLength + kChanged) << place;
    }
  }
}

TEST(LabelForms, RanksAndSharesOfPositions) {
  std::vector<float> z = {1, 3, 2, /**/ 5, 5, 0, /**/ 9, 9, 9, /**/ 0, 1, 2};
  const std::vector<int32_t> labels = {2, 0, -1, 2};
  const Batch batch{.labels = labels.data(), .rows = 2};
  std::vector<int32_t> ranks(4), classes(4);
  const EvaluationSums sums =
      make_loss("cross-entropy", LabelForm(3, 2))
          ->evaluate(batch, z.data(), {.ranks = ranks.data(), .classes = classes.data()});
  EXPECT_EQ(sums.correct, 0.5 + 1);
  EXPECT_EQ(sums.samples, 2);
  EXPECT_EQ(ranks, (std::vector<int32_t>{1, 0, -1, 0}));
  EXPECT_EQ(classes, (std::vector<int32_t>{1, 0, -1, 2}));
}

TEST(LabelForms, WhatDoesNotFitIsRefused) {
  const auto refuse = [](const std::string& kind, const std::string& loss, const LabelForm& form,
                         std::initializer_list<std::string> words) {
    const std::vector<int64_t> shape =
        reads_tokens(kind) ? std::vector<int64_t>{5} : std::vector<int64_t>{1, 12, 12};
    expect_error<InvalidArgument>([&] { make_model(small_options(kind, loss), shape, form); },
                                  words);
  };
  refuse("linear", "cross-entropy", kSeveralLabels, {"several labels a sample", "binary-logistic"});
  refuse("linear", "squared-error", kSeveralLabels, {"several labels a sample", "binary-logistic"});
  refuse("linear", "binary-logistic", kSeveralOutputs, {"several labels a sample"});
  refuse("lstm", "binary-logistic", LabelForm(2, 5), {"one of 2 classes a position"});
  refuse("mlp", "cross-entropy", kSequence, {"mlp", "model.kind", "transformer"});
  refuse("lstm", "cross-entropy", LabelForm(4, 6), {"6 labels and 5 positions"});
  ModelOptions options = small_options("lstm", "binary-logistic");
  options.vocabulary = 0;
  expect_error<InvalidArgument>([&] { make_model(options, {5}, kSeveralLabels); },
                                {"number of tokens", "model.vocabulary"});
}

}  // namespace
}  // namespace hanse
