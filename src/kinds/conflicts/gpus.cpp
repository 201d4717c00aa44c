// What cohorts on GPUs cannot do: there these jobs train one client after the other.
#include "facts.hpp"

namespace hanse {

namespace {

constexpr Fact kOfSamples{"steps that are private for samples", "privacy.unit",
                          [](const JobFacts& f) { return f.job.privacy.of_samples(); }};
constexpr Fact kOneByOne{"an update that trains one client after the other", "client.update",
                         [](const JobFacts& f) { return !f.trains_side_by_side(); }};

constexpr OneByOne kRows[] = {
    {&kOfSamples, "gradients of samples get their noise in the hosts' memory"},
    {&kSimulated, "the training is simulated"},
    {&kOneByOne, "{client.update} works in the hosts' memory"},
    {&kClustered, "clients of a cohort would start from different copies"},
    {&kFlora, "the matrices that the server moves lie in the hosts' memory"},
    {&kLoraGap, "products of adapters are compared in the hosts' memory"},
    {&kLoraDropout, "inputs of adapters are dropped in the hosts' memory"},
};

}  // namespace

std::span<const OneByOne> one_by_one_facts() { return kRows; }

}  // namespace hanse
