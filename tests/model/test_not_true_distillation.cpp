// Not-true distillation against LibTorch's own functions, and against differences.
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "hanse/base/error.hpp"
#include "hanse/model/distillation.hpp"
#include "support.hpp"
#include "support/errors.hpp"

namespace hanse {
namespace {

constexpr int64_t kRows = 7, kClasses = 4, kFeatures = 3;

std::vector<float> scaled_row(const Model& model, uint64_t seed) {
  std::vector<float> row = initial_row(model, seed);
  for (float& w : row) w *= 4;
  return row;
}

// CE + beta tau^2 KL(softmax(received / tau) || softmax(z / tau)) of a linear model in float64; a
// logit of -1e30 takes the true class out.
struct Reference {
  double loss = 0;
  std::vector<double> gradient;

  Reference(const std::vector<float>& row, const std::vector<float>& received, const Batch& batch,
            double beta, double tau) {
    torch::Tensor w = torch::tensor(row).to(torch::kDouble).requires_grad_();
    const torch::Tensor labels =
        torch::from_blob(const_cast<int32_t*>(batch.labels), {batch.rows}, torch::kInt)
            .to(torch::kLong);
    const torch::Tensor z = logits(w, batch);
    const torch::Tensor u = logits(torch::tensor(received).to(torch::kDouble), batch);
    const torch::Tensor is_true = torch::one_hot(labels, kClasses).to(torch::kBool);
    const torch::Tensor q = torch::log_softmax(z.masked_fill(is_true, -1e30) / tau, 1);
    const torch::Tensor p = torch::softmax(u.masked_fill(is_true, -1e30) / tau, 1);
    const torch::Tensor terms = (p * ((p + 1e-300).log() - q)).masked_fill(is_true, 0);
    const torch::Tensor total = torch::nn::functional::cross_entropy(z, labels) +
                                beta * tau * tau * terms.sum() / batch.rows;
    total.backward();
    loss = total.item<double>();
    const double* g = w.grad().data_ptr<double>();
    gradient.assign(g, g + row.size());
  }

  static torch::Tensor logits(const torch::Tensor& w, const Batch& batch) {
    const torch::Tensor x =
        torch::from_blob(const_cast<float*>(batch.features), {batch.rows, kFeatures})
            .to(torch::kDouble);
    const int64_t size = kClasses * kFeatures;
    return x.mm(w.slice(0, 0, size).view({kClasses, kFeatures}).t()) +
           w.slice(0, size, size + kClasses);
  }
};

TEST(NotTrueDistillation, IsThePapersLoss) {
  const Samples samples({kFeatures}, kClasses, kRows, 1);
  const Batch batch = samples.batch();
  for (const double beta : {0.3, 1.0, 5.0}) {
    for (const double tau : {0.5, 1.0, 3.0}) {
      const auto model = make_model({.kind = "linear"}, {kFeatures}, kClasses);
      distill_not_true(*model, beta, tau);
      const std::vector<float> row = scaled_row(*model, 1), received = scaled_row(*model, 2);
      model->receive({received});
      const LossAndGradient found = loss_and_gradient(*model, row, batch);
      const Reference expected(row, received, batch, beta, tau);
      EXPECT_NEAR(found.loss, expected.loss, 2e-6 * (1 + expected.loss));
      for (std::size_t i = 0; i < row.size(); ++i) {
        EXPECT_NEAR(found.gradient[i], expected.gradient[i], 3e-6 * (1 + beta)) << i;
      }
    }
  }
}

// At the received model the divergence and its gradient are 0: what is left is the cross-entropy.
TEST(NotTrueDistillation, IsTheCrossEntropyAtTheReceivedModel) {
  const Samples samples({kFeatures}, kClasses, kRows, 3);
  const auto plain = make_model({.kind = "linear"}, {kFeatures}, kClasses);
  const auto model = make_model({.kind = "linear"}, {kFeatures}, kClasses);
  distill_not_true(*model, 2, 0.7);
  const std::vector<float> row = scaled_row(*model, 1);
  model->receive({row});
  const LossAndGradient found = loss_and_gradient(*model, row, samples.batch());
  const LossAndGradient expected = loss_and_gradient(*plain, row, samples.batch());
  EXPECT_EQ(found.loss, expected.loss);
  EXPECT_EQ(found.gradient, expected.gradient);
}

// The true class does not count: moving only its logit of the received model changes nothing.
TEST(NotTrueDistillation, IsBlindToTheTrueClass) {
  Samples samples({kFeatures}, kClasses, kRows, 3);
  for (int32_t& label : samples.labels) label = 2;
  const auto model = make_model({.kind = "linear"}, {kFeatures}, kClasses);
  distill_not_true(*model, 2, 0.7);
  const std::vector<float> row = scaled_row(*model, 1);
  std::vector<float> received = scaled_row(*model, 2);
  model->receive({received});
  const LossAndGradient found = loss_and_gradient(*model, row, samples.batch());
  received[kClasses * kFeatures + 2] += 3;  // the bias of class 2
  model->receive({received});
  const LossAndGradient other = loss_and_gradient(*model, row, samples.batch());
  EXPECT_EQ(found.loss, other.loss);
  EXPECT_EQ(found.gradient, other.gradient);
  received[kClasses * kFeatures + 1] += 3;
  model->receive({received});
  EXPECT_NE(found.loss, loss_and_gradient(*model, row, samples.batch()).loss);
}

// Networks in closed form and those of autograd, and sequences with positions that have no label:
// the gradient against differences along a direction.
TEST(NotTrueDistillation, HasTheGradientOfItsLossInEveryNetwork) {
  const std::vector<std::pair<std::string, LabelForm>> cases = {{"mlp", 3},
                                                                {"cnn-leaf", 3},
                                                                {"graph", 3},
                                                                {"lstm", 3},
                                                                {"transformer", 3},
                                                                {"lstm", LabelForm(4, 12)},
                                                                {"transformer", LabelForm(4, 12)}};
  for (const auto& [kind, labels] : cases) {
    const std::vector<int64_t> shape =
        kind == "cnn-leaf" ? std::vector<int64_t>{1, 28, 28} : small_shape(kind);
    const Samples samples(shape, labels, 4, 2, reads_tokens(kind) ? 11 : 0);
    const auto model = make_model(small_options(kind, "cross-entropy"), shape, labels);
    distill_not_true(*model, 3, 2);
    const std::vector<float> row = initial_row(*model, 1);
    std::vector<float> received = initial_row(*model, 2);
    for (float& w : received) w *= 1.4F;  // a graph starts from its file's values
    model->receive({received});
    const LossAndGradient found = loss_and_gradient(*model, row, samples.batch());
    double squared = 0;
    for (const float g : found.gradient) squared += static_cast<double>(g) * static_cast<double>(g);
    const double norm = std::sqrt(squared);
    const auto moved = [&](double by) {
      std::vector<float> there = row;
      for (std::size_t i = 0; i < row.size(); ++i) {
        there[i] += static_cast<float>(by / norm) * found.gradient[i];
      }
      return loss_and_gradient(*model, there, samples.batch()).loss;
    };
    const double h = 5e-3;
    EXPECT_NEAR((moved(h) - moved(-h)) / (2 * h), norm, 2e-2 * norm) << kind;
    const auto plain = make_model(small_options(kind, "cross-entropy"), shape, labels);
    EXPECT_GT(found.loss, loss_and_gradient(*plain, row, samples.batch()).loss) << kind;
  }
}

// A sample counts once, however many of its positions have labels.
TEST(NotTrueDistillation, IsTheMeanOverLabelledPositions) {
  const std::vector<int64_t> shape = small_shape("lstm");
  const LabelForm form(4, 12);
  Samples samples(shape, form, 1, 2, 11);
  const auto model = make_model(small_options("lstm", "cross-entropy"), shape, form);
  distill_not_true(*model, 3, 2);
  const std::vector<float> row = scaled_row(*model, 1), received = scaled_row(*model, 2);
  model->receive({received});
  const auto loss = [&](const std::vector<int32_t>& labels) {
    samples.labels = labels;
    return loss_and_gradient(*model, row, samples.batch()).loss;
  };
  std::vector<int32_t> first(samples.labels.size(), -1), second = first, both = first;
  first[0] = both[0] = 3;
  second[1] = both[1] = 7;
  EXPECT_NEAR(loss(both), (loss(first) + loss(second)) / 2, 1e-6);
}

TEST(NotTrueDistillation, SaysWhatItNeeds) {
  const auto two = make_model({.kind = "linear"}, {kFeatures}, 2);
  expect_error<InvalidArgument>([&] { distill_not_true(*two, 1, 1); },
                                {"nothing to distill", "client.update"});
  const auto logistic = make_model({.kind = "linear", .loss = "binary-logistic"}, {kFeatures}, 2);
  expect_error<InvalidArgument>([&] { distill_not_true(*logistic, 1, 1); },
                                {"binary-logistic", "model.loss"});
}

}  // namespace
}  // namespace hanse
