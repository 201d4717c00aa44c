// Adapters that the server merges, and what is measured of their products: both need every
// participant's factors.
#include "facts.hpp"

namespace hanse {

namespace {

constexpr Fact kNoRank{"no adapters", "client.lora",
                       [](const JobFacts& f) { return !f.job.client.lora.is_any(); }};
constexpr Fact kKeepsTensors{
    "tensors that stay with the client", "client.personal",
    [](const JobFacts& f) { return f.job.client.alone || !f.job.client.personal.empty(); }};
constexpr Fact kAverages{"the mean of the models", "server.average",
                         [](const JobFacts& f) { return f.job.server.average; }};
constexpr Fact kFartherSteps{"an extrapolated step of the server", "server.extrapolate",
                             [](const JobFacts& f) { return f.job.server.extrapolate; }};
constexpr Fact kWritesAdapters{
    "adapters that are written", "run.adapters, or run.merge-adapters",
    [](const JobFacts& f) {
      return f.job.run.merge_adapters || f.job.run.adapters != AdapterFormat::kNone;
    },
    [](const JobFacts& f) -> std::string {
      return f.job.run.merge_adapters ? "run.merge-adapters" : "run.adapters";
    }};
constexpr Fact kHalf{"a factor that is frozen", "client.train", [](const JobFacts& f) {
                       return f.job.client.train.find("lora_") != std::string::npos;
                     }};
constexpr Fact kWaitsForUpdates{
    "a rule that weighs after the training", "aggregator.kind", [](const JobFacts& f) {
      return f.rule.norms || f.rule.after_training() || f.rule.rates || f.rule.trials > 0;
    }};

constexpr Fact kNarrowBase{
    "frozen tensors in bfloat16", "model.base-precision",
    [](const JobFacts& f) { return f.job.model.base_precision == BasePrecision::kBfloat16; }};

constexpr Fact kOwnRanks{"ranks by client", "client.lora-ranks",
                         [](const JobFacts& f) { return !f.job.client.lora_ranks.empty(); }};
constexpr Fact kNotFlora{
    "adapters that the server averages", "client.lora-kind", [](const JobFacts& f) {
      return f.job.client.lora_kind != LoraKind::kFlora || !f.job.client.lora.is_any();
    }};

constexpr const char* kOtherKinds = "client.lora-kind = plain, ffa or fedsa";
constexpr const char* kNoGap = "leave lora-gap out";

constexpr Conflict kRows[] = {
    {&kFlora, &kNotTheMean, "flora merges the mean of the products: aggregator.kind = fedavg",
     kOtherKinds},
    {&kFlora, &kNotSgdOrProx,
     "flora starts every round from fresh adapters, of which {client.update} "
     "knows nothing",
     kOtherKinds},
    {&kFlora, &kPrivate, "flora's server gets the factors of each client, without noise",
     kOtherKinds},
    {&kFlora, &kMasks, "flora's server gets the factors of each client, which no mask hides",
     "comm.masks = false, or client.lora-kind = plain, ffa or fedsa"},
    {&kFlora, &kSeveralVersions, "flora moves the matrices under clients of older versions",
     kOtherKinds},
    {&kFlora, &kTimeLimit, "flora's merge has no scale for those who are left out", kOtherKinds},
    {&kFlora, &kForges, "flora's server has factors, and attackers forge rows of a sum",
     kOtherKinds},
    {&kFlora, &kKeepsTensors, "flora starts every round from fresh adapters, and none can stay",
     kOtherKinds},
    {&kFlora, &kKeepsMoments,
     "flora starts every round from fresh adapters, and moments are of the "
     "last ones",
     "client.optimizer-state = fresh"},
    {&kFlora, &kServerSteps, "flora adds server.lr times the products to the matrices",
     "server.optimizer = sgd"},
    {&kFlora, &kFartherSteps, "flora adds server.lr times the products to the matrices",
     "leave it false"},
    {&kFlora, &kAverages, "flora moves what is frozen, of which no mean is kept", "leave it false"},
    {&kFlora, &kWritesAdapters, "flora's adapters are merged in every round, and none are left",
     "leave {key} out: model.h5 has the matrices"},
    {&kFlora, &kAlternates, "flora starts both factors anew", kOtherKinds},
    {&kOwnRanks, &kNotFlora, "the mean of factors of different ranks is no factor",
     "client.lora-kind = flora"},
    {&kFlora, &kNarrowBase, "flora adds to the frozen matrices, which bfloat16 would round again",
     "model.base-precision = float32"},
    {&kObjective, &kNarrowBase, "an objective may read the whole row, which has no frozen tensors",
     "model.base-precision = float32"},
    {&kFlora, &kHalf, "flora starts both factors anew", kOtherKinds},
    {&kLoraGap, &kNoRank, "lora-gap compares products of adapters", "client.lora = 8, for example"},
    {&kLoraGap, &kWaitsForUpdates, "lora-gap is measured while updates are summed", kNoGap},
    {&kLoraGap, &kPrivate, "lora-gap tells of the clients without noise", kNoGap},
    {&kLoraGap, &kMasks, "lora-gap needs the factors of each client, which masks hide", kNoGap},
    {&kLoraGap, &kForges,
     "lora-gap is measured while updates are summed, before attackers forge them", kNoGap},
};

}  // namespace

std::span<const Conflict> conflicts_of_adapters() { return kRows; }

}  // namespace hanse
