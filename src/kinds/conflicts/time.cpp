// The virtual clock and asynchronous rounds, among themselves and with what needs rounds.
#include "facts.hpp"

namespace hanse {

namespace {

constexpr Fact kClock{"a virtual clock", "clock.kind",
                      [](const JobFacts& f) { return f.job.clock.is_on(); }};
constexpr Fact kNoClock{"no virtual clock", "clock.kind",
                        [](const JobFacts& f) { return !f.job.clock.is_on(); }};
constexpr Fact kFedasync{"fedasync", "async.kind",
                         [](const JobFacts& f) { return f.job.async.is_fedasync(); }};

constexpr Fact kClockedPresence{
    "clients on line by the clock", "clock.availability", [](const JobFacts& f) {
      return f.job.clock.is_on() && f.job.clock.availability.kind != OnLineKind::kAlways;
    }};
constexpr Fact kOverSelects{
    "more clients drawn than count", "sampler.over-select",
    [](const JobFacts& f) { return f.job.clock.is_on() && f.job.clock.over_select > 1; }};
constexpr Fact kRoundsEndEarly{
    "rounds that end before the last client", "clock.round",
    [](const JobFacts& f) { return f.job.clock.round != RoundEnd::kAll; }};
constexpr Fact kAvare{"avare", "sampler.kind",
                      [](const JobFacts& f) { return f.job.sampler.kind == "avare"; }};
constexpr Fact kUnbiased{"the unbiased estimator", "aggregator.estimator", [](const JobFacts& f) {
                           return f.job.aggregator.estimator == Estimator::kUnbiased;
                         }};
constexpr Fact kSharesOfBuffer{
    "weights that sum to one in a buffer", "async.normalize", [](const JobFacts& f) {
      return f.job.async.is_on() && f.job.async.normalize == BufferNorm::kWeights;
    }};
constexpr Fact kNotNormalized{
    "an estimator other than normalized", "aggregator.estimator",
    [](const JobFacts& f) { return f.job.aggregator.estimator != Estimator::kNormalized; }};
constexpr Fact kServerRate{"a step size of the server", "server.lr",
                           [](const JobFacts& f) { return f.job.server.lr != 1; }};
constexpr Fact kNotSgdProxOrDitto{
    "an update other than sgd, prox and ditto", "client.update",
    [](const JobFacts& f) { return kNotSgdOrProx.holds(f) && f.job.client.kind != "ditto"; }};

constexpr Conflict kRows[] = {
    {&kClockedPresence, &kNotAlwaysThere, "two keys say who is there",
     "leave it, or clock.availability, at always"},
    {&kRepeats, &kOverSelects, "clients are drawn with replacement", "sampler.replacement = false"},
    {&kClock, &kStragglers, "the clock says how far clients come", "leave it 0"},
    {&kClock, &kTimeLimit, "the clock says when rounds end", "leave it 0"},
    {&kAsync, &kNoClock, "async.kind = {async.kind} needs clock.kind = virtual"},
    {&kAsync, &kRoundsEndEarly, "async.kind = {async.kind} needs clock.round = all"},
    {&kAsync, &kOverSelects, "async.kind = {async.kind} needs sampler.over-select = 1"},
    {&kAsync, &kRegret, "async.kind = {async.kind} needs evaluate.regret = false"},
    {&kAsync, &kAvare, "avare draws as many clients in every round, and slots open one by one",
     "use another sampler"},
    {&kUnbiased, &kSharesOfBuffer,
     "weights that depend on the others in the buffer are not unbiased",
     "buffer, or aggregator.estimator = normalized"},
    {&kFedasync, &kNotFedavg, "async.kind = fedasync needs aggregator.kind = fedavg"},
    {&kFedasync, &kNotNormalized, "async.kind = fedasync needs aggregator.estimator = normalized"},
    {&kFedasync, &kServerSteps, "async.kind = fedasync needs server.optimizer = sgd"},
    {&kFedasync, &kServerRate, "async.kind = fedasync needs server.lr = 1"},
    {&kFedasync, &kNotSgdProxOrDitto,
     "async.kind = fedasync needs client.update = sgd, prox or ditto"},
};

}  // namespace

std::span<const Conflict> conflicts_of_time() { return kRows; }

}  // namespace hanse
