// What cohorts on GPUs cannot do, beside the kinds whose rows say cpus_alone.
#include "facts.hpp"

namespace hanse {

namespace {

constexpr Fact kGpus{"clients on GPUs", "run.device", [](const JobFacts& f) { return f.on_gpus; }};

constexpr Fact kOfSamples{"rounds that are private for samples", "privacy.unit",
                          [](const JobFacts& f) { return f.job.privacy.of_samples(); }};
constexpr Fact kKeptMomentum{
    "momentum that clients keep", "client.optimizer-state", [](const JobFacts& f) {
      return f.job.client.optimizer.state == Moments::kKept && f.job.client.momentum > 0;
    }};
constexpr Fact kAccumulates{"steps of several batches", "client.accumulate",
                            [](const JobFacts& f) { return f.job.client.accumulate > 1; }};
constexpr Fact kOneByOne{"an update that trains one client after the other", "client.update",
                         [](const JobFacts& f) { return !f.trains_side_by_side(); }};
constexpr Fact kTunes{"models tuned for evaluations", "evaluate.tune-steps",
                      [](const JobFacts& f) { return f.job.evaluate.tune_steps > 0; }};
constexpr Fact kMakesOwnModels{
    "models that clients do not keep", "evaluate.view",
    [](const JobFacts& f) { return evaluates_own_models(f.job) && !f.keeps_own_model(); }};

constexpr Conflict kRows[] = {
    {&kGpus, &kSquares, "the losses of single samples do not leave GPUs", "use another"},
    {&kGpus, &kOfSamples, "gradients of samples are not clipped on GPUs", "use client"},
    {&kGpus, &kOwnLoss, "another loss than model.loss is not trained on GPUs",
     "leave it as it is by default"},
    {&kGpus, &kKeptMomentum, "momentum that clients keep is not trained on GPUs", "use fresh"},
    {&kGpus, &kAugments, "an augmented image is not trained on GPUs",
     "leave it as it is by default"},
    {&kGpus, &kAccumulates, "a step of several batches is not trained on GPUs", "use 1"},
    {&kGpus, &kOneByOne, "{client.update} is not trained on GPUs with these options",
     "use sgd or prox"},
    {&kGpus, &kTunes, "models are not tuned for evaluations on GPUs", "use 0"},
    {&kGpus, &kMakesOwnModels, "models that clients do not keep are not made on GPUs",
     "use evaluate.view = global"},
};

}  // namespace

std::span<const Conflict> conflicts_of_gpus() { return kRows; }

}  // namespace hanse
