// What cohorts on GPUs cannot do: there these jobs train one client after the other.
#include "facts.hpp"
#include "hanse/kinds/attacks.hpp"

namespace hanse {

namespace {

constexpr Fact kClientMemory{
    "a rule that keeps numbers of each client", "aggregator.kind",
    [](const JobFacts& f) { return f.rule.last_updates || f.rule.sign_share; }};
constexpr Fact kRobust{"a robust rule", "aggregator.kind",
                       [](const JobFacts& f) { return f.rule.rejects; }};
constexpr Fact kAttacksUpdates{"an attack on updates", "attack.kind", [](const JobFacts& f) {
                                 return f.attack.forges || f.rule.forging_rows > 0 ||
                                        attack_replaces(f.job);
                               }};
constexpr Fact kPoisons{"an attack on the training", "attack.kind",
                        [](const JobFacts& f) { return attack_poisons(f.job); }};
constexpr Fact kOfClients{"rounds that are private for clients", "privacy.kind",
                          [](const JobFacts& f) { return f.job.privacy.of_clients(); }};
constexpr Fact kOfSamples{"steps that are private for samples", "privacy.unit",
                          [](const JobFacts& f) { return f.job.privacy.of_samples(); }};
constexpr Fact kTimed{"clients that differ in their model or steps", "async.kind, or clock.late",
                      [](const JobFacts& f) {
                        return kSeveralVersions.holds(f) ||
                               (f.job.clock.is_on() && f.job.clock.makes_partial());
                      },
                      kSeveralVersions.key_in};
constexpr Fact kSimulated{"training that is not done", "simulate.sample-us",
                          [](const JobFacts& f) { return f.job.simulate.is_on(); }};
constexpr Fact kOneByOne{"an update that trains one client after the other", "client.update",
                         [](const JobFacts& f) { return !f.trains_side_by_side(); }};
constexpr Fact kWorkerMomentum{"momentum of what clients send", "client.worker-momentum",
                               [](const JobFacts& f) { return f.job.client.worker_momentum > 0; }};
constexpr Fact kTunes{"models tuned for evaluations", "evaluate.tune-steps",
                      [](const JobFacts& f) { return f.job.evaluate.tune_steps > 0; }};
constexpr Fact kMakesOwnModels{
    "models that clients do not keep", "evaluate.view",
    [](const JobFacts& f) { return evaluates_own_models(f.job) && !f.keeps_own_model(); }};

constexpr OneByOne kRows[] = {
    {&kClientMemory, "what {aggregator.kind} keeps of each client lies in the hosts' memory"},
    {&kRobust, "{aggregator.kind} looks at updates in the hosts' memory"},
    {&kAttacksUpdates, "{attack.kind} changes updates in the hosts' memory"},
    {&kPoisons, "{attack.kind} changes samples of a batch in the hosts' memory"},
    {&kOfClients, "updates get their noise in the hosts' memory"},
    {&kOfSamples, "gradients of samples get their noise in the hosts' memory"},
    {&kSquares, "{sampler.kind} asks for the losses of single samples"},
    {&kTimed, "clients start from several models, or make fewer steps"},
    {&kOwnLoss, "clients minimise another loss than model.loss"},
    {&kAugments, "images are changed in the hosts' memory"},
    {&kSimulated, "the training is simulated"},
    {&kOneByOne, "{client.update} works in the hosts' memory"},
    {&kCompresses, "updates are compressed in the hosts' memory"},
    {&kMasks, "sums with masks are made in the hosts' memory"},
    {&kWorkerMomentum, "what clients send has a momentum in the hosts' memory"},
    {&kTunes, "models are tuned before they are evaluated"},
    {&kMakesOwnModels, "clients make their own models for evaluations alone"},
    {&kFlora, "the matrices that the server moves lie in the hosts' memory"},
    {&kLoraGap, "products of adapters are compared in the hosts' memory"},
    {&kLoraDropout, "inputs of adapters are dropped in the hosts' memory"},
};

}  // namespace

std::span<const OneByOne> one_by_one_facts() { return kRows; }

}  // namespace hanse
