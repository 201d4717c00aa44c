// What cohorts on GPUs cannot do: there these jobs train one client after the other.
#include "facts.hpp"
#include "hanse/kinds/attacks.hpp"

namespace hanse {

namespace {

constexpr Fact kPoisons{"an attack on the training", "attack.kind",
                        [](const JobFacts& f) { return attack_poisons(f.job); }};
constexpr Fact kOfSamples{"steps that are private for samples", "privacy.unit",
                          [](const JobFacts& f) { return f.job.privacy.of_samples(); }};
constexpr Fact kSimulated{"training that is not done", "simulate.sample-us",
                          [](const JobFacts& f) { return f.job.simulate.is_on(); }};
constexpr Fact kOneByOne{"an update that trains one client after the other", "client.update",
                         [](const JobFacts& f) { return !f.trains_side_by_side(); }};
constexpr Fact kTunes{"models tuned for evaluations", "evaluate.tune-steps",
                      [](const JobFacts& f) { return f.job.evaluate.tune_steps > 0; }};
constexpr Fact kMakesOwnModels{
    "models that clients do not keep", "evaluate.view",
    [](const JobFacts& f) { return evaluates_own_models(f.job) && !f.keeps_own_model(); }};

constexpr OneByOne kRows[] = {
    {&kPoisons, "{attack.kind} changes samples of a batch in the hosts' memory"},
    {&kOfSamples, "gradients of samples get their noise in the hosts' memory"},
    {&kSquares, "{sampler.kind} asks for the losses of single samples"},
    {&kOwnLoss, "clients minimise another loss than model.loss"},
    {&kAugments, "images are changed in the hosts' memory"},
    {&kSimulated, "the training is simulated"},
    {&kOneByOne, "{client.update} works in the hosts' memory"},
    {&kTunes, "models are tuned before they are evaluated"},
    {&kMakesOwnModels, "clients make their own models for evaluations alone"},
};

}  // namespace

std::span<const OneByOne> one_by_one_facts() { return kRows; }

}  // namespace hanse
