// Rounds whose participants are trained side by side for other losses than the model's or on other
// samples than their own, and evaluations of models that are made for them.
#include <functional>
#include <string>

#include <gtest/gtest.h>

#include "protocol/cohort_kinds.hpp"
#include "support/objective_file.hpp"

namespace hanse {
namespace {

class CohortAims : public testing::Test {
 protected:
  static void SetUpTestSuite() { torch_library().set_threads(1); }
};

KindsJob with(const std::function<void(Job&)>& change) {
  KindsJob job{plain_steps()};
  job.evaluates = true;
  change(job.job);
  return job;
}

TEST_F(CohortAims, OtherLosses) {
  expect_agreement("smoothed and weighed", with([](Job& job) {
                     job.client.label_smoothing = 0.2;
                     job.client.class_weights = "client";
                   }));
  const std::string near = objective_file(
      "logits, labels, row, received_row, received_logits",
      "  loss = torch.cross_entropy_loss(logits, labels, None, 1, -100, 0.0)\n"
      "  return loss + 0.2 * (row - received_row).square().sum() + (logits - received_logits)"
      ".square().mean()\n");
  expect_agreement("objective", with([&](Job& job) { job.client.objective = near; }));
  expect_agreement("objective of ditto", with([&](Job& job) {
                     job.client.objective = near;
                     job.client.kind = "ditto";
                   }));
}

TEST_F(CohortAims, ChangedSamples) {
  expect_agreement("augmented", with([](Job& job) {
                     job.client.augmentation = {.crop = 1, .flip = 0.5, .cutout = 2, .mixup = 0.6};
                   }));
  expect_agreement("augmented, for rules of gradients", with([](Job& job) {
                     job.client.augmentation = {.crop = 1, .flip = 0.5, .mixup = 0.6};
                     job.aggregator.kind = "dqn-fed";
                     job.aggregator.radius = 0.3;
                     job.client.lr = 0.05;
                     job.client.pairs = 2;
                     job.client.rate = LoweringRate::kLbfgs;
                   }));
  for (const char* kind : {"label-flip", "backdoor"}) {
    expect_agreement(kind, with([&](Job& job) {
                       job.attack.kind = kind;
                       job.attack.clients.number = 3;
                       job.aggregator.kind = "fedmgda+";
                     }));
  }
}

TEST_F(CohortAims, TunedAndOwnModels) {
  const auto tuned = [](Job& job) { job.evaluate.tune_steps = 3; };
  const auto own = [](Job& job) { job.evaluate.view = EvaluateView::kPersonalised; };
  const auto personal = [](Job& job) { job.client.personal = "fc1*"; };
  expect_agreement("own models", with(own));
  expect_agreement("own models with kept moments", with([&](Job& job) {
                     own(job);
                     job.client.momentum = 0.5;
                     job.client.optimizer.state = Moments::kKept;
                   }));
  expect_agreement("tuned", with(tuned));
  expect_agreement("tuned own models", with([&](Job& job) { own(job), tuned(job); }));
  expect_agreement("tuned, personal", with([&](Job& job) { tuned(job), personal(job); }));
  expect_agreement("tuned for another loss", with([&](Job& job) {
                     tuned(job);
                     job.client.label_smoothing = 0.3;
                     job.client.class_weights = "all";
                     job.client.augmentation.crop = 1;
                   }));
}

// The draws follow from them.
TEST_F(CohortAims, SquaresAreTold) {
  KindsJob job{plain_steps()};
  job.squares = true;
  job.job.sampler.kind = "oort";
  job.job.sampler.per_round = 3;
  job.job.sampler.oort.exploration = 0.5;
  job.rounds = 8;
  expect_agreement("squares", job);
}

}  // namespace
}  // namespace hanse
