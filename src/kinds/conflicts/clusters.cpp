// Copies of tensors for clusters of clients: what looks at a row as if every client had trained all
// of it.
#include "facts.hpp"
#include "hanse/kinds/own_rules.hpp"

namespace hanse {

namespace {

constexpr Fact kWaitsForTraining{
    "a rule that weighs after the training", "aggregator.kind", [](const JobFacts& f) {
      return f.rule.norms || f.rule.after_training() || f.rule.rates || f.rule.trials > 0;
    }};
constexpr Fact kMakesControl{"a control variate", "client.update",
                             [](const JobFacts& f) { return f.update.control; }};
constexpr Fact kOwnModel{"models of the clients' own", "client.update",
                         [](const JobFacts& f) { return f.update.own_models || f.update.adapts; }};
constexpr Fact kAdaptersOrPart{
    "a part that is trained", "client.train, or client.lora",
    [](const JobFacts& f) { return f.job.client.lora.is_any() || !f.job.client.train.empty(); },
    [](const JobFacts& f) -> std::string {
      return f.job.client.lora.is_any() ? "client.lora" : "client.train";
    }};
constexpr Fact kSecondLook{"an extrapolated step of the server", "server.extrapolate",
                           [](const JobFacts& f) { return f.job.server.extrapolate; }};
constexpr Fact kOwnOptimizer{"an optimizer of one's own", "server.optimizer",
                             [](const JobFacts& f) { return is_own_rule(f.job.server.optimizer); }};
constexpr Fact kLossesFirst{"a sampler that compares losses before each draw", "sampler.kind",
                            [](const JobFacts& f) { return f.sampler.compares; }};
constexpr Fact kOwnDraws{"a sampler of one's own", "sampler.kind",
                         [](const JobFacts& f) { return is_own_rule(f.job.sampler.kind); }};
constexpr Fact kOracle{"a sampler that lets all clients train before each draw", "sampler.kind",
                       [](const JobFacts& f) { return f.job.sampler.kind == "optimal"; }};
constexpr Fact kMessageMomentum{"momentum of messages", "client.worker-momentum",
                                [](const JobFacts& f) { return f.job.client.worker_momentum > 0; }};

constexpr const char* kPlainUpdate = "use client.update = sgd or prox";

constexpr Conflict kRows[] = {
    {&kClustered, &kWaitsForTraining,
     "{aggregator.kind} compares updates, and those of different copies have nothing in common",
     "use a rule that weighs before training, such as fedavg"},
    {&kClustered, &kForges,
     "attackers combine updates, and those of different copies have nothing "
     "in common",
     "an attack on the training, or none"},
    {&kClustered, &kSolves, "{client.update} solves for one model", kPlainUpdate},
    {&kClustered, &kMakesControl, "the control variate of {client.update} is of one model",
     kPlainUpdate},
    {&kClustered, &kFedNova, "fednova's weights sum up over all participants, of all copies",
     kPlainUpdate},
    {&kClustered, &kOwnModel,
     "a client's own model is its copy, and {client.update} would keep another", kPlainUpdate},
    {&kClustered, &kAdaptersOrPart, "copies are of tensors of a whole model", "leave {key} out"},
    {&kClustered, &kSeveralVersions, "a client chooses among the copies of the newest model",
     "async.kind = none, and clock.late = drop or partial"},
    {&kClustered, &kPrivate, "which copy a client takes would be told without noise", "none"},
    {&kClustered, &kMasks, "which copy a client takes is told to all ranks", "comm.masks = false"},
    {&kClustered, &kCompresses,
     "compression sends entries of the whole row, and memories of copies "
     "that the client has left",
     "none"},
    {&kClustered, &kMessageMomentum,
     "momentum would hold updates of copies that the client has left", "0"},
    {&kClustered, &kSecondLook, "the factor is of one mean update, and each copy has its own",
     "leave it false"},
    {&kClustered, &kOwnOptimizer,
     "a copy that nobody takes stands still, which an optimizer of "
     "one's own is not told",
     "use sgd, momentum, adam, yogi or adagrad"},
    {&kClustered, &kLossesFirst, "{sampler.kind} measures losses before clients have taken a copy",
     "uniform"},
    {&kClustered, &kOracle, "{sampler.kind} lets all clients train before they have taken a copy",
     "uniform"},
    {&kClustered, &kOwnDraws,
     "a sampler of one's own may ask for losses before clients have taken "
     "a copy",
     "uniform"},
    {&kClustered, &kRegret,
     "the sampler's regret lets all clients train before they have taken a "
     "copy",
     "leave it false"},
    {&kClustered, &kTimeLimit, "a copy's weights sum up over clients that may be left out",
     "run.round-seconds = 0"},
    {&kClustered, &kSimulated, "copies are taken by losses, which nobody measures", "0"},
};

}  // namespace

std::span<const Conflict> conflicts_of_clusters() { return kRows; }

}  // namespace hanse
