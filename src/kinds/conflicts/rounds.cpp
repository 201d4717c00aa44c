// What a rule, an update and a sampler need of each other in a round.
#include "facts.hpp"
#include "hanse/kinds/own_rules.hpp"

namespace hanse {

namespace {

constexpr Fact kSmooths{"smoothed labels", "client.label-smoothing",
                        [](const JobFacts& f) { return f.job.client.label_smoothing > 0; }};
constexpr Fact kMixesUp{"mixup", "client.mixup",
                        [](const JobFacts& f) { return f.job.client.augmentation.mixup > 0; }};

constexpr Fact kOwnSampler{"a sampler of one's own", "sampler.kind",
                           [](const JobFacts& f) { return is_own_rule(f.job.sampler.kind); }};
constexpr Fact kBiased{"a sampler that favours clients", "sampler.kind",
                       [](const JobFacts& f) { return f.sampler.biased; }};
constexpr Fact kCompares{"a sampler that compares losses before each draw", "sampler.kind",
                         [](const JobFacts& f) { return f.sampler.compares; }};
constexpr Fact kWholeRounds{"a sampler that draws whole rounds", "sampler.kind",
                            [](const JobFacts& f) { return f.sampler.in_rounds; }};

constexpr Fact kNeedsAll{"a rule that needs every client", "aggregator.kind",
                         [](const JobFacts& f) { return f.rule.full; }};
constexpr Fact kColumns{"a rule by columns", "aggregator.kind",
                        [](const JobFacts& f) { return f.rule.columns; }};
constexpr Fact kLateCountsLess{"late updates that count less", "clock.late", [](const JobFacts& f) {
                                 return f.job.clock.is_on() && f.job.clock.carries() &&
                                        f.job.async.staleness != StalenessKind::kConstant;
                               }};
constexpr Fact kMoreThanUpdates{
    "a rule that weighs more than the round's updates", "aggregator.kind", [](const JobFacts& f) {
      return f.rule.layers || f.rule.last_updates || f.rule.sign_share.has_value();
    }};
constexpr Fact kLooksAtUpdates{
    "a rule that looks at updates", "aggregator.kind",
    [](const JobFacts& f) { return f.rule.after_training() || f.rule.norms; }};
constexpr Fact kWaits{
    "a rule that weighs after the training", "aggregator.kind", [](const JobFacts& f) {
      return f.rule.norms || f.rule.after_training() || f.rule.rates || f.rule.trials > 0;
    }};
constexpr Fact kExtrapolates{"an extrapolated step of the server", "server.extrapolate",
                             [](const JobFacts& f) { return f.job.server.extrapolate; }};
constexpr Fact kHidesNorms{"rounds that are private for clients", "privacy.unit",
                           [](const JobFacts& f) { return f.job.privacy.of_clients(); }};
constexpr Fact kTries{"a rule that tries shorter steps", "aggregator.kind",
                      [](const JobFacts& f) { return f.rule.trials > 0; }};
constexpr Fact kLastUpdates{"a rule that works on the updates of absent clients", "aggregator.kind",
                            [](const JobFacts& f) { return f.rule.last_updates; }};
constexpr Fact kServersRow{"a rule by the server's own update", "aggregator.kind",
                           [](const JobFacts& f) { return f.rule.extra_row == ExtraRow::kServer; }};

constexpr Fact kTogether{"an update that trains all tensors together", "client.update",
                         [](const JobFacts& f) { return !f.update.separable; }};
constexpr Fact kNoSquares{"an update that does not tell the loss of each sample", "client.update",
                          [](const JobFacts& f) { return !f.finds_squares(); }};
constexpr Fact kState{"clients that keep a state, or send directions", "client.update",
                      [](const JobFacts& f) { return f.keeps_state() || f.sends_directions(); }};
constexpr Fact kKeeps{"clients that keep a state, or a control variate", "client.update",
                      [](const JobFacts& f) { return f.keeps_state() || f.update.control; }};

constexpr Fact kArrival{
    "weights by arrival", "aggregator.estimator",
    [](const JobFacts& f) { return f.job.aggregator.estimator == Estimator::kArrival; }, nullptr,
    [](const JobFacts& f) { return no_inclusion(f.job); }};
constexpr Fact kUnknownArrival{"arrivals that no formula tells", "clock.round",
                               [](const JobFacts& f) { return !no_inclusion(f.job).empty(); }};
constexpr Fact kPartial{
    "clients that make the steps that fit", "clock.late",
    [](const JobFacts& f) { return f.job.clock.is_on() && f.job.clock.makes_partial(); }};

constexpr Conflict kRows[] = {
    {&kObjective, &kSmooths, "a loss of your own smooths labels itself", "leave it at 0"},
    {&kObjective, &kMixesUp, "a loss of your own has one label a sample", "leave it at 0"},
    {&kOwnSampler, &kRegret, "the probabilities of a sampler of one's own are not known",
     "leave it false"},
    {&kBiased, &kRegret, "sampler {sampler.kind} does not estimate gradients", "leave it false"},
    {&kAsync, &kCompares,
     "{sampler.kind} measures losses before every draw, and asynchronous rounds draw whenever a "
     "client is done",
     "use clock.round = first with async.kind = none"},
    {&kNeedsAll, &kAsync, "{aggregator.kind} needs every client in every round",
     "async.kind = none"},
    {&kNeedsAll, &kSomeDoNotCount, "{aggregator.kind} needs every client in every round",
     "clock.round = all, where nobody is lost or goes"},
    {&kAsync, &kColumns, "a step by columns cannot count old updates less",
     "use a rule with coefficients, or async.kind = none"},
    {&kColumns, &kLateCountsLess, "a step by columns cannot count late updates less",
     "async.staleness = constant, or clock.late = drop or partial"},
    {&kForges, &kMoreThanUpdates,
     "{aggregator.kind} weighs more than the round's updates, which attackers forge",
     "use another rule, or an attack on the training"},
    {&kRates, &kOwnLoss, "{aggregator.kind} works on gradients of model.loss",
     "use another aggregator.kind, or leave it as it is by default"},
    {&kLooksAtUpdates, &kFedNova, "{aggregator.kind} looks at updates, which fednova weighs anew",
     "use a rule that weighs before training, such as fedavg"},
    {&kStragglers, &kFewSteps,
     "stragglers need more than one epoch or step, of which they make a part",
     "client.stragglers = 0"},
    {&kStragglers, &kLearns,
     "stragglers need a sampler that does not learn from the length of updates",
     "client.stragglers = 0"},
    {&kStragglers, &kRates, "stragglers need an aggregator whose clients send whole updates",
     "client.stragglers = 0"},
    {&kDirections, &kPersonalLayers, "clients that send directions train all tensors together",
     "use client.update = sgd, prox or scaffold, and another aggregator.kind"},
    {&kTogether, &kPersonalLayers, "clients of {client.update} train all tensors together",
     "use client.update = sgd, prox or scaffold, and another aggregator.kind"},
    {&kDirections, &kOwnModels,
     "clients of this job send directions and have no models of their own",
     "use evaluate.view = global"},
    {&kSquares, &kOwnLoss,
     "sampler {sampler.kind} needs the loss of each sample, which {key} does not tell",
     "leave it as it is by default"},
    {&kSquares, &kNoSquares,
     "sampler {sampler.kind} needs the loss of each sample, which {client.update} does not tell",
     "use sgd or prox"},
    {&kTimeLimit, &kLearns, "{sampler.kind} needs every participant's update",
     "use uniform, full, weighted or lipschitz, or run.round-seconds = 0"},
    {&kTimeLimit, &kWaits, "{aggregator.kind} needs every participant's update",
     "use a rule that weighs before training, or run.round-seconds = 0"},
    {&kTimeLimit, &kState, "{client.update} needs every participant's update",
     "use sgd or prox, or run.round-seconds = 0"},
    {&kTimeLimit, &kTrace, "a trace needs every participant's update",
     "use run.trace = false, or run.round-seconds = 0"},
    {&kUnknownArrival, &kArrival,
     "arrival weighs by how often each client arrives in time: {detail}", "normalized or unbiased"},
    {&kSomeDoNotCount, &kTrace, "a trace has rounds in which all who are drawn count",
     "leave it false, or use clock.round = all, where nobody is lost or goes"},
    {&kRates, &kPartial, "clients send whole updates to {aggregator.kind}", "drop or carry"},
    {&kTries, &kSeveralVersions, "{aggregator.kind} tries steps again on all participants at once",
     "use a rule that does not measure behind its step"},
    {&kLastUpdates, &kSeveralVersions,
     "{aggregator.kind} works on all clients' updates of one model",
     "use a rule that weighs those who arrive"},
    {&kServersRow, &kKeeps,
     "the server trains as a client that keeps nothing, and those of {client.update} do",
     "use sgd or prox"},
    {&kExtrapolates, &kWaits,
     "{aggregator.kind} weighs updates when their norms are known, and the factor is one of theirs",
     "use a rule that weighs before training, such as fedavg"},
    {&kExtrapolates, &kServerSteps, "an extrapolated step is one along the mean update",
     "use server.optimizer = sgd"},
    {&kExtrapolates, &kSolves, "{client.update} has a step of the server's of its own",
     "use sgd or prox"},
    {&kExtrapolates, &kFedDyn, "feddyn has a step of the server's of its own", "use sgd or prox"},
    {&kExtrapolates, &kHidesNorms, "the norms of updates are not told in private rounds",
     "use server.extrapolate = false"},
    {&kExtrapolates, &kAsync, "an extrapolated step is one of updates from one model",
     "use async.kind = none"},
    {&kAsync, &kWholeRounds, "sampler {sampler.kind} draws whole rounds, and these have none",
     "uniform"},
};

}  // namespace

std::span<const Conflict> conflicts_of_rounds() { return kRows; }

}  // namespace hanse
