// What would leave a client without noise, or let more than chance decide who counts.
#include "hanse/kinds/privacy.hpp"

#include "facts.hpp"

namespace hanse {

namespace {

constexpr Fact kOfClients{"rounds that are private for clients", "privacy.unit",
                          [](const JobFacts& f) { return f.job.privacy.of_clients(); }};
constexpr Fact kSecretDraws{"draws from the system's secret", "privacy.seed",
                            [](const JobFacts& f) { return has_secret_draws(f.job); }};
constexpr Fact kSecret{"a secret of the system", "privacy.seed",
                       [](const JobFacts& f) { return f.job.privacy.has_secret(); }};

constexpr Fact kKeepsUpdates{"a rule that weighs updates after the training", "aggregator.kind",
                             [](const JobFacts& f) { return f.rule.after_training(); }};
constexpr Fact kSendsBeside{"numbers beside the updates", "client.update",
                            [](const JobFacts& f) { return f.update.control || f.update.solves; }};

constexpr Fact kMapsRows{"steps before the rule", "aggregator.before",
                         [](const JobFacts& f) { return !f.job.aggregator.before.list.empty(); }};
constexpr Fact kNotUnbiased{
    "an estimator other than unbiased", "aggregator.estimator",
    [](const JobFacts& f) { return f.job.aggregator.estimator != Estimator::kUnbiased; }};
constexpr Fact kBySamples{"weights by samples", "aggregator.weights", [](const JobFacts& f) {
                            return f.job.aggregator.weights == ClientWeights::kSamples;
                          }};
constexpr Fact kNotByChance{
    "a sampler that draws by more than chance", "sampler.kind",
    [](const JobFacts& f) { return !value_of<Attendance>(f.job.sampler.kind); }};
constexpr Fact kUniformRepeats{
    "draws with replacement", "sampler.replacement", [](const JobFacts& f) {
      return f.job.sampler.kind == "uniform" && f.job.sampler.learning.replacement;
    }};
constexpr Fact kVirtualEnd{"an end by virtual time", "run.virtual-seconds", [](const JobFacts& f) {
                             return f.job.clock.is_on() && f.job.clock.virtual_seconds > 0;
                           }};
constexpr Fact kNormalizesAll{"means of all samples", "data.normalize",
                              [](const JobFacts& f) { return f.job.data.normalize == "all"; }};
constexpr Fact kStandardizesAll{
    "columns standardized by all samples", "data.standardize",
    [](const JobFacts& f) { return f.job.data.standardize == Standardize::kAll; }};
constexpr Fact kCountsAllLabels{
    "weights by all labels", "client.class-weights",
    [](const JobFacts& f) { return f.job.client.class_weights == "all"; }};
constexpr Fact kDrawsSeed{"a seed of the draws", "sampler.seed",
                          [](const JobFacts& f) { return f.job.sampler.seed > 0; }};
constexpr Fact kOldCheckpoints{"several checkpoints", "checkpoint.keep",
                               [](const JobFacts& f) { return f.job.checkpoint.keep != 1; }};

constexpr const char* kMeansHint = "none, or numbers that are known before";
constexpr const char* kMeans =
    "means and deviations of all clients' samples would leave them without noise";
constexpr const char* kTimeDecides = "the time that clients take decides who counts";

constexpr Conflict kRows[] = {
    {&kOfClients, &kNotFedavg, "{aggregator.kind} uses numbers of clients that have no noise",
     "private rounds are of fedavg"},
    {&kOfClients, &kMapsRows, "rules before the mean look at the updates without noise",
     "leave it empty; privacy.clip bounds every update"},
    {&kOfClients, &kAlternates, "noise would move the tensors whose turn it is not",
     "leave it empty, or client.train"},
    {&kOfClients, &kTunesBeyond, "noise would move the tensors that training leaves still",
     "name tensors of client.train alone"},
    {&kOfClients, &kNotUnbiased,
     "estimator {aggregator.estimator} divides by who took part, which tells who did",
     "unbiased divides by the number that is expected"},
    {&kOfClients, &kBySamples, "weights by samples have no bound that is known without the clients",
     "uniform, or capped with aggregator.cap"},
    {&kOfClients, &kCompresses, "{comm.compress} would change updates behind their clip",
     "none: a private sum is of integers"},
    {&kOfClients, &kFastSums, "float32 sums round, and what they round depends on the updates",
     "exact"},
    {&kPrivate, &kNotSgdOrProx,
     "clients of {client.update} send numbers beside their update, or keep the server's",
     "sgd or prox"},
    {&kPrivate, &kNotByChance, "sampler {sampler.kind} draws by what clients have or report",
     "poisson, uniform, full or cyclic"},
    {&kPrivate, &kUniformRepeats, "a client that is drawn twice counts twice", "false"},
    {&kPrivate, &kNotAlwaysThere,
     "the probability of a draw is not known where clients come and go", "always"},
    {&kPrivate, &kAsync, "in asynchronous rounds the time that clients take decides who counts",
     "none"},
    {&kPrivate, &kSomeDoNotCount, kTimeDecides, "all, where nobody is lost or goes", "clock.round"},
    {&kPrivate, &kVirtualEnd, "how many rounds there are depends on the clients' samples",
     "0, and run.rounds"},
    {&kPrivate, &kTimeLimit, kTimeDecides, "0"},
    {&kPrivate, &kNormalizesAll, kMeans, kMeansHint},
    {&kPrivate, &kStandardizesAll, kMeans, kMeansHint},
    {&kPrivate, &kCountsAllLabels,
     "numbers of labels of all clients' samples would leave them without noise", kMeansHint},
    {&kPrivate, &kForges, "attack {attack.kind} sees the others' updates without noise",
     "label-flip, backdoor, replace or feedback"},
    {&kSecretDraws, &kDrawsSeed,
     "the guarantee counts on a draw that nobody knows, and a seed makes it known",
     "leave it out: the draw comes from the system's secret"},
    {&kSecret, &kOldCheckpoints, "an older checkpoint would tell the noise of the rounds behind it",
     "1 with privacy.seed = system"},
    {&kMasks, &kFastSums, "masks cancel in a sum of integers alone", "exact"},
    {&kMasks, &kKeepsUpdates,
     "for {aggregator.kind} the ranks exchange parts of the updates themselves, without masks",
     "a rule of losses or of none, or comm.masks = false"},
    {&kMasks, &kSendsBeside, "what clients of {client.update} send beside their update has no mask",
     "sgd or prox, or comm.masks = false"},
};

}  // namespace

std::span<const Conflict> conflicts_of_privacy() { return kRows; }

}  // namespace hanse
