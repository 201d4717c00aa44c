// Aggregators, server optimizers, attacks and samplers among one another, and what runs are.
#include "facts.hpp"
#include "hanse/kinds/attacks.hpp"
#include "robust_aggregators.hpp"

namespace hanse {

namespace {

constexpr Fact kCuda{"GPUs", "run.device",
                     [](const JobFacts& f) { return f.job.run.device == RunDevice::kCuda; }};
constexpr Fact kSharedDispatch{"shared dispatch", "comm.dispatch", [](const JobFacts& f) {
                                 return f.job.comm.dispatch == AskedDispatch::kShared;
                               }};

constexpr Fact kCapped{"capped weights", "aggregator.weights", [](const JobFacts& f) {
                         const AggregatorOptions& rule = f.job.aggregator;
                         return rule.kind == "fedavg" && rule.weights == ClientWeights::kCapped;
                       }};
constexpr Fact kLowers{"dqn-fed or adafed", "aggregator.kind", [](const JobFacts& f) {
                         return aggregator_traits(f.job.aggregator).lowers;
                       }};
std::string not_plain_gradients(const JobFacts& f) {
  const std::string& update = f.job.client.kind;
  return update != "sgd" ? "client.update = " + update : beyond_plain_steps(f.job.client);
}
constexpr Fact kNotPlainGradients{
    "what clients send is no plain gradient", "client.update, client.momentum and the like",
    [](const JobFacts& f) { return !not_plain_gradients(f).empty(); }, not_plain_gradients};
constexpr Fact kBacktracks{"backtracking", "aggregator.backtrack", [](const JobFacts& f) {
                             return aggregator_traits(f.job.aggregator).lowers &&
                                    f.job.aggregator.backtrack > 0;
                           }};
constexpr Fact kNotRobust{"a rule that is not robust", "aggregator.kind",
                          [](const JobFacts& f) { return !is_robust(f.job.aggregator); }};

constexpr Fact kTrusts{"a rule that trusts one participant", "aggregator.kind",
                       [](const JobFacts& f) { return trusts_participant(f.job.aggregator); }};
constexpr Fact kBuckets{"bucketing", "aggregator.before", [](const JobFacts& f) {
                          return f.job.aggregator.before.has(PreRuleKind::kBucketing);
                        }};

constexpr Fact kIdle{"attackers without data", "attack.idle",
                     [](const JobFacts& f) { return f.job.attack.is_on() && f.job.attack.idle; }};
constexpr Fact kSearches{"an attack that searches", "attack.kind",
                         [](const JobFacts& f) { return attack_searches(f.job); }};
constexpr Fact kPoisons{"an attack on the training", "attack.kind",
                        [](const JobFacts& f) { return attack_poisons(f.job); }};
constexpr Fact kLooksAtData{
    "a sampler that looks at clients' data", "sampler.kind",
    [](const JobFacts& f) { return !f.sampler.even && !f.sampler.everyone; }};

constexpr Conflict kRows[] = {
    {&kSimulated, &kCuda, "a simulated run has no GPUs",
     "use auto or cpu, or simulate.sample-us = 0"},
    {&kSimulated, &kSolves,
     "{client.update} cannot be simulated: the server solves with what training finds",
     "use another, or simulate.sample-us = 0"},
    {&kFastSums, &kSharedDispatch, "a float32 sum needs a planned schedule",
     "use comm.dispatch=planned or comm.reduction=exact"},
    {&kLearns, &kCapped, "sampler {sampler.kind} estimates a mean by samples, or of equals",
     "samples or uniform"},
    {&kLowers, &kNotPlainGradients,
     "dqn-fed and adafed work on plain gradients and cannot be used with {key}",
     "leave it out, or choose another aggregator.kind"},
    {&kServerSteps, &kBacktracks,
     "backtracking shortens plain steps, not those of {server.optimizer}",
     "use server.optimizer = sgd, or aggregator.radius"},
    {&kTrusts, &kBuckets, "{aggregator.kind} trusts a client's row, which bucketing averages",
     "nnm, arc or clip"},
    {&kNotSgdOrProx, &kIdle, "clients of {client.update} need data", "client.update = sgd or prox"},
    {&kLooksAtData, &kIdle, "sampler {sampler.kind} looks at clients' data, and some have none",
     "sampler.kind = uniform or full"},
    {&kForges, &kTimeLimit, "attackers wait for every participant's update", "leave it 0"},
    {&kForges, &kAsync, "attack {attack.kind} is of rounds, in which all send at once",
     "async.kind = none, or attack.kind = label-flip, backdoor or replace"},
    {&kNotRobust, &kSearches,
     "{attack.kind} looks for what moves a robust rule farthest, and {aggregator.kind} moves "
     "without a bound",
     "ipm, alie, or another aggregator.kind"},
    {&kSolves, &kPoisons, "clients of {client.update} read their samples as they are",
     "an attack on updates, or client.update = sgd"},
};

}  // namespace

std::span<const Conflict> conflicts_of_rules() { return kRows; }

}  // namespace hanse
