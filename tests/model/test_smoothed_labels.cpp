// Label smoothing and class weights against LibTorch's cross-entropy.
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "hanse/base/error.hpp"
#include "support.hpp"
#include "support/errors.hpp"

namespace hanse {
namespace {

constexpr int64_t kRows = 7, kClasses = 3;

// A linear model whose logits are easy to make by tensors.
struct Trained {
  Trained()
      : model(make_model({.kind = "linear"}, {4}, kClasses)), samples({4}, kClasses, kRows, 1) {}

  // Loss and gradient of the row by LibTorch.
  LossAndGradient reference(const std::vector<float>& row, const std::vector<float>& weights,
                            double share) {
    const Batch batch = samples.batch();
    torch::Tensor w = torch::tensor(row).requires_grad_();
    const torch::Tensor x = torch::from_blob(const_cast<float*>(batch.features), {kRows, 4});
    const torch::Tensor labels =
        torch::from_blob(const_cast<int32_t*>(batch.labels), {kRows}, torch::kInt).to(torch::kLong);
    const torch::Tensor z = x.mm(w.slice(0, 0, 12).view({3, 4}).t()) + w.slice(0, 12, 15);
    const auto given = weights.empty() ? torch::Tensor() : torch::tensor(weights);
    const torch::Tensor loss =
        at::cross_entropy_loss(z, labels, given, at::Reduction::Mean, -100, share);
    loss.backward();
    const float* g = w.grad().data_ptr<float>();
    return {loss.item<double>(), {g, g + 15}};
  }

  std::unique_ptr<Model> model;
  Samples samples;
};

TEST(SmoothedLabels, AreTorchs) {
  for (const double share : {0.0, 0.1, 0.6}) {
    for (const std::vector<float>& weights :
         {std::vector<float>{}, {1, 1, 1}, {0.5F, 2, 0.25F}, {0, 3, 1}}) {
      Trained t;
      smooth_labels(*t.model, share);
      Batch batch = t.samples.batch();
      batch.class_weights = weights.empty() ? nullptr : weights.data();
      for (const uint64_t seed : {1, 2}) {
        std::vector<float> row = initial_row(*t.model, seed);
        for (float& w : row) w *= 3;
        const LossAndGradient expected = t.reference(row, weights, share);
        const LossAndGradient found = loss_and_gradient(*t.model, row, batch);
        EXPECT_NEAR(found.loss, expected.loss, 1e-6);
        for (std::size_t i = 0; i < row.size(); ++i) {
          EXPECT_NEAR(found.gradient[i], expected.gradient[i], 1e-6) << share << ", entry " << i;
        }
        const auto plain = make_model({.kind = "linear"}, {4}, kClasses);
        EXPECT_EQ(t.model->evaluate(row, batch).loss, plain->evaluate(row, batch).loss);
      }
    }
  }
}

TEST(SmoothedLabels, OfNoWeightAreNoLoss) {
  Trained t;
  smooth_labels(*t.model, 0.2);
  Batch batch = t.samples.batch();
  const std::vector<float> zeros(3);
  batch.class_weights = zeros.data();
  const LossAndGradient found = loss_and_gradient(*t.model, initial_row(*t.model), batch);
  EXPECT_EQ(found.loss, 0);
  EXPECT_EQ(found.gradient, std::vector<float>(15));
}

TEST(SmoothedLabels, AreForCrossEntropy) {
  const auto model = make_model({.kind = "linear", .loss = "squared-error"}, {4}, 0);
  expect_error<InvalidArgument>([&] { smooth_labels(*model, 0.1); },
                                {"squared-error", "(model.loss)", "cross-entropy"});
}

// The loss of a mixture is that of both labels, in their shares, and so is its gradient.
TEST(MixedLabels, AreMixturesOfLosses) {
  for (const std::string loss : {"cross-entropy", "smoothed", "binary-logistic", "squared-error"}) {
    SCOPED_TRACE(loss);
    const std::string kind = loss == "smoothed" ? "cross-entropy" : loss;
    const int64_t classes = classes_for(kind, 3);
    const auto model = make_model(model_options("mlp", kind, {5}), {4}, classes);
    if (loss == "smoothed") smooth_labels(*model, 0.2);
    const Samples own({4}, classes, 7, 1), other({4}, classes, 7, 2);
    const std::vector<float> row = initial_row(*model);
    Batch batch = own.batch(), second = own.batch();
    second.labels = other.batch().labels;
    second.targets = other.batch().targets;
    const MixedLabels mixed{.labels = second.labels, .targets = second.targets, .share = 0.7};
    const LossAndGradient a = loss_and_gradient(*model, row, batch);
    const LossAndGradient b = loss_and_gradient(*model, row, second);
    batch.mixed = &mixed;
    const LossAndGradient found = loss_and_gradient(*model, row, batch);
    EXPECT_NEAR(found.loss, 0.7 * a.loss + 0.3 * b.loss, 1e-6);
    EXPECT_GT(std::abs(a.loss - b.loss), 1e-3);
    for (std::size_t i = 0; i < row.size(); ++i) {
      EXPECT_NEAR(found.gradient[i], 0.7F * a.gradient[i] + 0.3F * b.gradient[i], 1e-6);
    }
  }
}

}  // namespace
}  // namespace hanse
