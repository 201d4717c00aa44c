// What cohorts on GPUs cannot do, beside the kinds whose rows say cpus_alone.
#include "facts.hpp"

namespace hanse {

namespace {

constexpr Fact kGpus{"clients on GPUs", "run.device", [](const JobFacts& f) { return f.on_gpus; }};

constexpr Fact kClientMemory{
    "a rule that keeps numbers of each client", "aggregator.kind",
    [](const JobFacts& f) { return f.rule.last_updates || f.rule.sign_share; }};
constexpr Fact kRobust{"a robust rule, or an attack on updates", "aggregator.kind",
                       [](const JobFacts& f) { return f.rule.rejects || f.rule.forging_rows > 0; }};
constexpr Fact kTimed{"clients that differ in their model or steps", "async.kind, or clock.late",
                      [](const JobFacts& f) {
                        return kSeveralVersions.holds(f) ||
                               (f.job.clock.is_on() && f.job.clock.makes_partial());
                      },
                      kSeveralVersions.key_in};
constexpr Fact kOneByOne{"an update that trains one client after the other", "client.update",
                         [](const JobFacts& f) { return !f.trains_side_by_side(); }};
constexpr Fact kWorkerMomentum{"momentum of what clients send", "client.worker-momentum",
                               [](const JobFacts& f) { return f.job.client.worker_momentum > 0; }};
constexpr Fact kTunes{"models tuned for evaluations", "evaluate.tune-steps",
                      [](const JobFacts& f) { return f.job.evaluate.tune_steps > 0; }};
constexpr Fact kMakesOwnModels{
    "models that clients do not keep", "evaluate.view",
    [](const JobFacts& f) { return evaluates_own_models(f.job) && !f.keeps_own_model(); }};

constexpr Conflict kRows[] = {
    {&kGpus, &kClientMemory, "what {aggregator.kind} keeps of each client does not lie on GPUs",
     "use another"},
    {&kGpus, &kRobust, "robust rules look at updates in the hosts' memory", "use another"},
    {&kGpus, &kSquares, "the losses of single samples do not leave GPUs", "use another"},
    {&kGpus, &kTimed,
     "clients that start from several models, or make fewer steps, are not trained on GPUs",
     "use none or drop"},
    {&kGpus, &kOwnLoss, "another loss than model.loss is not trained on GPUs",
     "leave it as it is by default"},
    {&kGpus, &kAugments, "an augmented image is not trained on GPUs",
     "leave it as it is by default"},
    {&kGpus, &kOneByOne, "{client.update} is not trained on GPUs with these options",
     "use sgd or prox"},
    {&kGpus, &kCompresses, "updates are not compressed on GPUs", "use none"},
    {&kGpus, &kMasks, "sums of GPUs have no masks", "use false"},
    {&kGpus, &kWorkerMomentum, "momentum of what clients send is not trained on GPUs", "use 0"},
    {&kGpus, &kTunes, "models are not tuned for evaluations on GPUs", "use 0"},
    {&kGpus, &kMakesOwnModels, "models that clients do not keep are not made on GPUs",
     "use evaluate.view = global"},
};

}  // namespace

std::span<const Conflict> conflicts_of_gpus() { return kRows; }

}  // namespace hanse
