// Updates that are one algorithm of clients and server, or that change what gradients mean.
#include "facts.hpp"
#include "hanse/model/model.hpp"

namespace hanse {

namespace {

constexpr Fact kScaffold{"scaffold", "client.update",
                         [](const JobFacts& f) { return f.job.client.kind == "scaffold"; }};
constexpr Fact kDitto{"ditto", "client.update",
                      [](const JobFacts& f) { return f.job.client.kind == "ditto"; }};

constexpr Fact kNotEveryone{"a sampler that leaves clients out", "sampler.kind",
                            [](const JobFacts& f) {
                              return !f.sampler.everyone || !is_always(f.job.sampler.availability);
                            }};
constexpr Fact kUneven{"a sampler that is not even", "sampler.kind",
                       [](const JobFacts& f) { return !f.sampler.even || f.sampler.in_rounds; }};
constexpr Fact kNotNormalizedMean{"a rule other than fedavg, or another estimator than normalized",
                                  "aggregator.kind", [](const JobFacts& f) {
                                    return kNotTheMean.holds(f) ||
                                           f.job.aggregator.estimator != Estimator::kNormalized;
                                  }};

// Momentum weighs the gradients by numbers that are known.
std::string beyond_known_weights(const JobFacts& f) {
  if (f.job.client.optimizer.state != Moments::kFresh) return "client.optimizer-state";
  StepOptions steps = f.job.client;
  steps.momentum = 0;
  return beyond_plain_steps(steps);
}
constexpr Fact kBeyondKnownWeights{
    "steps beyond w - lr g, but for momentum", "client.optimizer, client.clip and the like",
    [](const JobFacts& f) { return !beyond_known_weights(f).empty(); }, beyond_known_weights};
constexpr Fact kOtherSteps{"a client optimizer other than sgd", "client.optimizer",
                           [](const JobFacts& f) { return f.job.client.optimizer.kind != "sgd"; }};
constexpr Fact kAsksForKept{
    "moments that clients keep", "client.optimizer-state",
    [](const JobFacts& f) { return f.job.client.optimizer.state == Moments::kKept; }};

constexpr Fact kAccumulates{"steps of several mini-batches", "client.accumulate",
                            [](const JobFacts& f) { return f.job.client.accumulate > 1; }};
constexpr Fact kOwnSteps{"apfl, pfedme or per-fedavg", "client.update",
                         [](const JobFacts& f) { return f.update.own_steps; }};
constexpr Fact kSeveralGradients{
    "an update of several gradients a step", "client.update",
    [](const JobFacts& f) { return f.update.own_steps || f.job.client.kind == "fedsam"; }};
constexpr Fact kGlobalMomentum{
    "fedsam with the last direction", "client.global-momentum",
    [](const JobFacts& f) { return f.job.client.kind == "fedsam" && f.update.control; }};
constexpr Fact kHasLoss{"fedntd, moon or fedproto", "client.update",
                        [](const JobFacts& f) { return f.update.own_loss; }};
constexpr Fact kRepresents{"moon or fedproto", "client.update",
                           [](const JobFacts& f) { return f.update.represents; }};
constexpr Fact kOneLayer{"one dense layer", "model.kind",
                         [](const JobFacts& f) { return is_linear(f.job.model); }};
constexpr Fact kPropfair{"propfair", "aggregator.kind",
                         [](const JobFacts& f) { return f.job.aggregator.kind == "propfair"; }};

constexpr const char* kAnotherUpdate = "or another client.update";

constexpr Conflict kRows[] = {
    {&kSolves, &kAsync, "{client.update} needs every client in every round", "async.kind = none"},
    {&kSolves, &kSomeDoNotCount, "{client.update} needs every client in every round",
     "clock.round = all, where nobody is lost or goes"},
    {&kSolves, &kNotEveryone,
     "{client.update} needs everyone in every round: sampler.kind = full, sampler.availability = "
     "always",
     kAnotherUpdate},
    {&kSolves, &kNotTheMean, "{client.update} needs aggregator.kind = fedavg", kAnotherUpdate},
    {&kSolves, &kBeyondPlainSteps, "{client.update} needs {key} as it is by default",
     kAnotherUpdate},
    {&kSolves, &kOwnLoss, "{client.update} needs the Hessians of model.loss", kAnotherUpdate},
    {&kSolves, &kAugments, "{client.update} needs samples as they are", kAnotherUpdate},
    {&kSolves, &kServerSteps,
     "{client.update} needs server.optimizer = sgd: its step is a step of Newton's",
     kAnotherUpdate},
    {&kScaffold, &kBeyondKnownWeights,
     "scaffold corrects gradient steps and cannot be used with {key}",
     "leave {key} as it is by default, or use client.update = sgd"},
    {&kFedDyn, &kUneven, "feddyn needs sampler.kind = uniform or full", kAnotherUpdate},
    {&kFedDyn, &kNotNormalizedMean,
     "feddyn needs aggregator.kind = fedavg with aggregator.estimator = normalized",
     kAnotherUpdate},
    {&kFedDyn, &kServerSteps, "feddyn needs server.optimizer = sgd", kAnotherUpdate},
    {&kFedDyn, &kBeyondPlainSteps, "feddyn needs {key} as it is by default", kAnotherUpdate},
    {&kFedNova, &kOtherSteps, "fednova counts gradients: it needs client.optimizer = sgd",
     kAnotherUpdate},
    {&kFedNova, &kAsksForKept, "fednova counts gradients: it needs client.optimizer-state = fresh",
     kAnotherUpdate},
    {&kDitto, &kKeepsMoments, "ditto's two models would need moments of their own",
     "use fresh, or client.update = sgd or prox"},
    {&kNotSgdOrProx, &kPhases, "clients of {client.update} move all tensors in every step",
     "leave it empty, or use client.update = sgd or prox"},
    {&kNotSgdOrProx, &kAlternates, "clients of {client.update} move all tensors in every round",
     "leave it empty, or use client.update = sgd or prox"},
    {&kDirections, &kPhases, "clients that send directions move all tensors in every step",
     "leave it empty, or use another aggregator.kind"},
    {&kDirections, &kAlternates, "clients that send directions move all tensors in every round",
     "leave it empty, or use another aggregator.kind"},
    {&kDirections, &kTunesBeyond, "clients that send directions move all tensors of the row",
     "name tensors of client.train alone, or use another aggregator.kind"},
    {&kAlternates, &kPhases, "what moves in turn by rounds cannot do so within a round, too",
     "leave one of the two empty"},
    {&kPhases, &kKeepsMoments, "moments that clients keep have one age for all tensors",
     "use fresh, or leave client.phases empty"},
    {&kAlternates, &kKeepsMoments, "moments that clients keep have one age for all tensors",
     "use fresh, or leave client.alternate empty"},
    {&kPhases, &kAccumulates, "a phase may end within the mini-batches of a step",
     "1, or larger batches: client.batch"},
    {&kOwnSteps, &kBeyondPlainSteps, "{client.update} needs {key} as it is by default",
     kAnotherUpdate},
    {&kSeveralGradients, &kPropfair,
     "propfair weighs a step's gradient by its loss, and {client.update} makes a step of several",
     "use client.update = sgd, or another rule"},
    {&kGlobalMomentum, &kBeyondKnownWeights,
     "client.global-momentum is a share of plain gradients and cannot be used with {key}",
     "leave {key} as it is by default, or use client.global-momentum = 0"},
    {&kRepresents, &kOneLayer,
     "{client.update} compares what hidden layers make of samples, and {model.kind} has none",
     "mlp, or another network"},
    {&kHasLoss, &kAsksForLoss, "{client.update} has a loss of its own",
     "leave {key} as it is by default, or use client.update = sgd"},
};

}  // namespace

std::span<const Conflict> conflicts_of_updates() { return kRows; }

}  // namespace hanse
