// Facts that conflicts of several files name.
#pragma once

#include "hanse/client/round_steps.hpp"
#include "hanse/job/asked.hpp"
#include "hanse/job/job.hpp"
#include "hanse/kinds/aggregators.hpp"
#include "hanse/kinds/clock.hpp"
#include "hanse/kinds/conflicts.hpp"
#include "hanse/kinds/privacy.hpp"
#include "hanse/protocol/server_optimizer.hpp"

namespace hanse {

// The rows of each file, in the order in which they are asked.
std::span<const Conflict> conflicts_of_rules();
std::span<const Conflict> conflicts_of_privacy();
std::span<const Conflict> conflicts_of_samples();
std::span<const Conflict> conflicts_of_updates();
std::span<const Conflict> conflicts_of_time();
std::span<const Conflict> conflicts_of_rounds();
std::span<const Conflict> conflicts_of_adapters();
std::span<const Conflict> conflicts_of_clusters();

inline constexpr Fact kAsync{"asynchronous rounds", "async.kind",
                             [](const JobFacts& f) { return f.job.async.is_on(); }};
inline constexpr Fact kTimeLimit{"rounds with a time limit", "run.round-seconds",
                                 [](const JobFacts& f) { return f.job.run.round_seconds > 0; }};
inline constexpr Fact kSomeDoNotCount{"rounds in which not all count who are drawn", "clock.kind",
                                      [](const JobFacts& f) { return !all_drawn_count(f.job); }};
inline constexpr Fact kNotAlwaysThere{
    "clients that come and go", "sampler.availability",
    [](const JobFacts& f) { return !is_always(f.job.sampler.availability); }};

inline constexpr Fact kLearns{"a sampler that learns from the participants", "sampler.kind",
                              [](const JobFacts& f) { return !f.sampler.blind; }};
inline constexpr Fact kSquares{"a sampler that needs the loss of each sample", "sampler.kind",
                               [](const JobFacts& f) { return f.sampler.squares; }};
inline constexpr Fact kRepeats{
    "draws with replacement", "sampler.replacement",
    [](const JobFacts& f) { return f.job.sampler.learning.replacement && !f.sampler.everyone; }};

inline constexpr Fact kNotTheMean{
    "a rule other than fedavg", "aggregator.kind",
    [](const JobFacts& f) { return !aggregator_traits(f.job.aggregator).plain_mean; }};
inline constexpr Fact kNotFedavg{
    "a rule other than fedavg", "aggregator.kind",
    [](const JobFacts& f) { return f.job.aggregator.kind != "fedavg"; }};
inline constexpr Fact kRates{"a rule that asks for rates", "aggregator.kind",
                             [](const JobFacts& f) { return f.rule.rates; }};
inline constexpr Fact kServerSteps{
    "a server optimizer other than sgd", "server.optimizer",
    [](const JobFacts& f) { return !takes_plain_steps(f.job.server); }};

inline constexpr Fact kForges{"an attack that forges updates", "attack.kind",
                              [](const JobFacts& f) { return f.attack.forges; }};

inline constexpr Fact kNotSgdOrProx{"an update other than sgd and prox", "client.update",
                                    [](const JobFacts& f) {
                                      const std::string& kind = f.job.client.kind;
                                      return kind != "sgd" && kind != "prox";
                                    }};
inline constexpr Fact kSolves{"fednew or fednl", "client.update",
                              [](const JobFacts& f) { return f.update.solves; }};
inline constexpr Fact kFedDyn{"feddyn", "client.update",
                              [](const JobFacts& f) { return f.job.client.kind == "feddyn"; }};
inline constexpr Fact kFedNova{"fednova", "client.update",
                               [](const JobFacts& f) { return f.job.client.kind == "fednova"; }};
inline constexpr Fact kDirections{"clients that send directions", "client.update",
                                  [](const JobFacts& f) { return f.sends_directions(); }};
inline constexpr Fact kBeyondPlainSteps{
    "steps beyond w - lr g", "client.optimizer, client.momentum and the like",
    [](const JobFacts& f) { return !beyond_plain_steps(f.job.client).empty(); },
    [](const JobFacts& f) { return beyond_plain_steps(f.job.client); }};
inline constexpr Fact kAsksForLoss{
    "a loss that options ask for",
    "client.objective, client.label-smoothing or client.class-weights",
    [](const JobFacts& f) { return !own_loss_key(f.job.client).empty(); },
    [](const JobFacts& f) { return own_loss_key(f.job.client); }};
inline constexpr Fact kOwnLoss{
    "another loss than model.loss",
    "client.objective, client.label-smoothing, client.class-weights or client.update",
    [](const JobFacts& f) { return f.update.own_loss || kAsksForLoss.holds(f); },
    [](const JobFacts& f) {
      return f.update.own_loss ? "client.update" : own_loss_key(f.job.client);
    }};
inline constexpr Fact kAugments{
    "augmented images", "client.crop, client.flip, client.cutout or client.mixup",
    [](const JobFacts& f) { return !augmentation_key(f.job.client.augmentation).empty(); },
    [](const JobFacts& f) { return augmentation_key(f.job.client.augmentation); }};
inline constexpr Fact kKeepsMoments{"moments that clients keep", "client.optimizer-state",
                                    [](const JobFacts& f) { return keeps_moments(f.job.client); }};
inline constexpr Fact kStragglers{"stragglers", "client.stragglers", [](const JobFacts& f) {
                                    return f.update.straggles && f.job.client.stragglers > 0;
                                  }};
inline constexpr Fact kFewSteps{"a single epoch or step", "client.epochs", [](const JobFacts& f) {
                                  return length_of_round(f.job.client) <= 1;
                                }};
inline constexpr Fact kPhases{"phases of a round", "client.phases",
                              [](const JobFacts& f) { return !f.job.client.phases.list.empty(); }};
inline constexpr Fact kAlternates{
    "tensors that move in turn", "client.alternate",
    [](const JobFacts& f) { return !f.job.client.alternate.empty(); }};
inline constexpr Fact kTunesBeyond{"tensors that only evaluations move", "evaluate.tune",
                                   [](const JobFacts& f) { return tunes_beyond_training(f.job); }};
inline constexpr Fact kPersonalLayers{
    "personal layers", "client.personal",
    [](const JobFacts& f) { return !f.job.client.alone && !f.job.client.personal.empty(); }};
inline constexpr Fact kClustered{"copies for clusters", "client.clustered",
                                 [](const JobFacts& f) { return f.job.client.has_clusters(); }};
inline constexpr Fact kFlora{
    "adapters that the server merges", "client.lora-kind", [](const JobFacts& f) {
      return f.job.client.lora.is_any() && f.job.client.lora_kind == LoraKind::kFlora;
    }};
inline constexpr Fact kLoraGap{"the gap between products and means", "evaluate.metrics",
                               [](const JobFacts& f) { return asked_of(f.job).lora_gap; }};
inline constexpr Fact kLoraDropout{
    "adapters with dropout", "client.lora-dropout",
    [](const JobFacts& f) { return f.job.client.lora.is_any() && f.job.client.lora_dropout > 0; }};
inline constexpr Fact kOwnModels{"evaluations of the clients' own models", "evaluate.view",
                                 [](const JobFacts& f) { return evaluates_own_models(f.job); }};

inline constexpr Fact kObjective{"a loss in a file", "client.objective",
                                 [](const JobFacts& f) { return !f.job.client.objective.empty(); }};
inline constexpr Fact kPrivate{"private rounds", "privacy.kind",
                               [](const JobFacts& f) { return f.job.privacy.is_on(); }};
inline constexpr Fact kSimulated{"a simulated run", "simulate.sample-us",
                                 [](const JobFacts& f) { return f.job.simulate.is_on(); }};
inline constexpr Fact kCompresses{"compressed updates", "comm.compress", [](const JobFacts& f) {
                                    return f.job.compression.compress != Compress::kNone;
                                  }};
inline constexpr Fact kFastSums{"sums in float32", "comm.reduction", [](const JobFacts& f) {
                                  return f.job.comm.reduction == Reduction::kFast;
                                }};
inline constexpr Fact kMasks{"masks between ranks", "comm.masks",
                             [](const JobFacts& f) { return masks_sums(f.job); }};
inline constexpr Fact kTrace{"a trace", "run.trace",
                             [](const JobFacts& f) { return f.job.run.trace; }};
inline constexpr Fact kRegret{"the sampler's regret", "evaluate.regret",
                              [](const JobFacts& f) { return f.job.evaluate.regret; }};

// Clients that work on several models at once.
inline constexpr Fact kSeveralVersions{"updates of several versions", "async.kind, or clock.late",
                                       [](const JobFacts& f) {
                                         return f.job.async.is_on() ||
                                                (f.job.clock.is_on() && f.job.clock.carries());
                                       },
                                       [](const JobFacts& f) -> std::string {
                                         return f.job.async.is_on() ? "async.kind" : "clock.late";
                                       }};

}  // namespace hanse
