// What steps that are private for each sample of a client cannot have: whatever shows samples other
// than by the noised sums of the steps, or lets one sample move another's gradient.
#include "facts.hpp"
#include "hanse/kinds/own_rules.hpp"

namespace hanse {

namespace {

constexpr Fact kOfSamples{"steps that are private for samples", "privacy.unit",
                          [](const JobFacts& f) { return f.job.privacy.of_samples(); }};

constexpr Fact kShares{"shares of noise", "privacy.kind",
                       [](const JobFacts& f) { return f.job.privacy.is_distributed(); }};
constexpr Fact kMovesNumbers{
    "neighbours with other numbers of samples", "privacy.adjacency",
    [](const JobFacts& f) { return f.job.privacy.adjacency != Adjacency::kZeroOut; }};
constexpr Fact kAdapts{"a clip that adapts", "privacy.clip-kind", [](const JobFacts& f) {
                         return f.job.privacy.clip_kind == ClipKind::kAdaptive;
                       }};
constexpr Fact kCorrelates{"correlated noise", "privacy.correlation", [](const JobFacts& f) {
                             return f.job.privacy.correlation != Correlation::kNone;
                           }};

constexpr Fact kLooksAtSamples{
    "a rule that is told of losses", "aggregator.kind", [](const JobFacts& f) {
      const std::string& kind = f.job.aggregator.kind;
      return f.rule.losses || f.rule.rates || f.rule.trials > 0 || kind == "propfair" ||
             f.rule.extra_row == ExtraRow::kServer || is_own_rule(kind);
    }};
constexpr Fact kMixup{"mixed samples", "client.mixup",
                      [](const JobFacts& f) { return f.job.client.augmentation.mixup > 0; }};
constexpr Fact kSumsBatches{"steps by several batches", "client.accumulate",
                            [](const JobFacts& f) { return f.job.client.accumulate > 1; }};
constexpr Fact kDropsLast{"passes without their last batch", "client.drop-last",
                          [](const JobFacts& f) { return f.job.client.drop_last; }};
constexpr Fact kWeighsClasses{"weights of classes", "client.class-weights", [](const JobFacts& f) {
                                return f.job.client.class_weights != "none";
                              }};
constexpr Fact kStandardizes{
    "columns standardized by the samples", "data.standardize",
    [](const JobFacts& f) { return f.job.data.standardize != Standardize::kNone; }};
constexpr Fact kFillsGaps{
    "missing values filled by the samples", "data.missing", [](const JobFacts& f) {
      const MissingValues missing = f.job.data.missing;
      return missing != MissingValues::kRefuse && missing != MissingValues::kDrop;
    }};
constexpr const char* kStatistics = "statistics of a client's samples would leave it without noise";

constexpr Conflict kRows[] = {
    {&kOfSamples, &kShares, "each client draws all the noise of its steps itself", "central"},
    {&kOfSamples, &kMovesNumbers,
     "rates and numbers of steps hang on how many samples a client has, which stays under zero-out "
     "alone",
     "zero-out: the gradient of a sample becomes 0"},
    {&kOfSamples, &kAdapts, "how many gradients of a step are clipped would need noise, too",
     "fixed"},
    {&kOfSamples, &kCorrelates, "noise of a client's steps is their own", "none"},
    {&kOfSamples, &kLooksAtSamples,
     "{aggregator.kind} is told of losses of samples that have no noise",
     "fedavg, or a rule that looks at the updates alone"},
    {&kOfSamples, &kMixup, "a mixture has two samples, and both would move by one", "0"},
    {&kOfSamples, &kSumsBatches, "the mean over several batches divides by the samples drawn", "1"},
    {&kOfSamples, &kDropsLast, "batches are drawn: none of them is the last of a pass", "false"},
    {&kOfSamples, &kObjective, "a loss in a file may look at several samples at once",
     "leave it empty: model.loss"},
    {&kOfSamples, &kWeighsClasses, "the mean of a batch would divide by the weights of its labels",
     "none"},
    {&kOfSamples, &kStandardizes, kStatistics, "none, with columns that are scaled before"},
    {&kOfSamples, &kFillsGaps, kStatistics, "refuse, or drop"},
};

}  // namespace

std::span<const Conflict> conflicts_of_samples() { return kRows; }

}  // namespace hanse
