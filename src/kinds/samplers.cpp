#include "hanse/kinds/samplers.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "families.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/text.hpp"
#include "hanse/client/smoothness.hpp"
#include "hanse/kinds/own_rules.hpp"
#include "hanse/rules/sampling/basic.hpp"
#include "hanse/rules/sampling/learning.hpp"
#include "hanse/rules/sampling/timed.hpp"

namespace hanse {

namespace {

std::vector<double> sample_counts(const Job&, const Federation& federation) {
  std::vector<double> samples(static_cast<std::size_t>(federation.clients()));
  for (std::size_t c = 0; c < samples.size(); ++c) {
    samples[c] = static_cast<double>(federation.train(static_cast<int64_t>(c)).size());
  }
  return samples;
}

std::vector<double> sample_shares(const Job&, const Federation& federation) {
  return train_shares(federation);
}

// The arguments that make a sampler.
struct SamplerCase {
  const SamplerOptions& options;
  int64_t clients;
  std::span<const double> initial;  // [M] first probabilities or shares; empty: the kind's own
};

// The words of sampler.a-max, which may be a number, too.
enum class AskedBound { kAuto, kFirstRound, kRunning };
constexpr auto choices_of(AskedBound) { return std::array{"auto", "first-round", "running"}; }

// `kind` belongs to the osmd family.
LearningOptions learning_options(const SamplerCase& c, OsmdKind kind = OsmdKind::kFixed) {
  constexpr int64_t kManyClients = 100000;
  const SamplerOptions& o = c.options;
  LearningOptions learning = o.learning;
  learning.kind = kind;
  if (o.mixing > 0) learning.mixing = o.mixing;
  const auto asked = value_of<AskedBound>(o.a_max);
  if (!asked) {
    learning.bound = BoundSource::kGiven;
    learning.a_max = *given_bound(o.a_max);
  } else if (asked == AskedBound::kRunning ||
             (asked == AskedBound::kAuto && c.clients > kManyClients)) {
    learning.bound = BoundSource::kRunning;
  }
  return learning;
}

std::unique_ptr<ClientSampler> make_osmd(const SamplerCase& c, OsmdKind kind) {
  return make_osmd_sampler(learning_options(c, kind), c.clients, c.options.per_round, c.initial);
}

template <auto kMake>
std::unique_ptr<ClientSampler> make_learning(const SamplerCase& c) {
  return kMake(learning_options(c), c.clients, c.options.per_round);
}

// [M] samples; without data every client has one.
std::vector<double> samples_of(const SamplerCase& c) {
  if (c.initial.empty()) return std::vector<double>(static_cast<std::size_t>(c.clients), 1.0);
  return {c.initial.begin(), c.initial.end()};
}

std::unique_ptr<ClientSampler> make_formula(const SamplerCase& c) {
  return make_formula_sampler(c.options.formula, samples_of(c), c.options.per_round,
                              c.options.learning.replacement);
}

std::unique_ptr<ClientSampler> make_oort(const SamplerCase& c) {
  return make_oort_sampler(c.options.oort, c.options.learning.variant, samples_of(c),
                           c.options.per_round);
}

std::unique_ptr<ClientSampler> make_power_of_choice(const SamplerCase& c) {
  return make_power_of_choice_sampler(samples_of(c), c.options.per_round, c.options.candidates);
}

uint64_t seed_of(const SamplerCase& c) { return static_cast<uint64_t>(c.options.seed); }

std::unique_ptr<ClientSampler> make_by_shares(const SamplerCase& c) {
  return make_weighted_sampler(c.initial, c.options.per_round, c.options.learning.replacement);
}

// [M] shares for the sampler's first probabilities.
std::vector<double> smoothness_shares(const Job& job, const Federation& federation) {
  auto shares = smoothness_constants(federation, job.model);  // lambda_m L_m
  if (job.aggregator.weights == ClientWeights::kUniform) return shares;
  const auto lambda = train_shares(federation);
  std::transform(shares.begin(), shares.end(), lambda.begin(), shares.begin(), std::multiplies<>());
  return shares;
}

struct SamplerKind : KindRow<Job> {
  SamplerTraits traits;
  std::unique_ptr<ClientSampler> (*make)(const SamplerCase&);
  // [M] for samplers by shares; null: the sampler has none.
  std::vector<double> (*shares)(const Job&, const Federation&) = nullptr;
};

// Keys that several kinds share.

using Options = SamplerOptions;
using Learning = LearningOptions;
const auto key = keys_of<Job>("sampler", &Job::sampler);
const auto learning_key = keys_of<Job>(
    "sampler", [](Job& job) -> auto& { return job.sampler.learning; });

const Keys<Job> kPerRound =
    key("per-round", &Options::per_round, at_least(1),
        "K, draws a round; without replacement all clients take part where there are fewer");
bool& replacement_of(Job& job) { return job.sampler.learning.replacement; }
const Keys<Job> kReplacement =
    learning_key("replacement", &Learning::replacement,
                 "draw with replacement; a client drawn twice trains once and counts twice");
const Keys<Job> kDrawing{kPerRound, with_default(kReplacement, &replacement_of, true)};
// Keys of samplers that learn from the participants.
const Keys<Job> kLearning{kDrawing,
                          keys_of<Job>("aggregator", &Job::aggregator)(
                              "weights", &AggregatorOptions::weights,
                              "share of a client in the objective whose gradient the sampler "
                              "estimates: by its training samples, or the same for all")};
const Keys<Job> kRateScale = learning_key("rate-scale", &Learning::rate_scale, above(0),
                                          "factor on the feedback in the updates");
const Keys<Job> kBound =
    key("a-max", &Options::a_max,
        "bound of the feedback: first-round (all clients train once before it), running, or a "
        "number; auto: first-round up to 100000 clients, else running");
const Keys<Job> kHorizon =
    learning_key("horizon", &Learning::horizon, or_auto(at_least(1)),
                 "rounds that the learning rates are set for; auto: run.rounds of the first start");

Keys<Job> variant_key(const std::string& help) {
  return learning_key("variant", &Learning::variant, help);
}

const Keys<Job> kOsmd{kLearning,
                      learning_key("alpha", &Learning::alpha, above_to(0, 1),
                                   "probabilities are at least alpha / clients; 1: uniform"),
                      variant_key("paper: as printed; reference: as its authors ran it; corrected: "
                                  "gamma free of the loss's unit"),
                      kRateScale, kBound};
const Keys<Job> kExperts = learning_key("gamma", &Learning::gamma, "auto",
                                        "learning rate of the experts' weights; auto: Theorem 8");

const Keys<Job> kOwnRule{kPerRound,
                         own_rule_keys(keys_of<Job>(
                             "sampler", [](Job& job) -> auto& { return job.sampler.own; }))};

std::unique_ptr<ClientSampler> make_own(const SamplerCase& c) {
  return make_own_sampler(own_rule("sampler", c.options.kind, c.options.own), samples_of(c),
                          std::min(c.options.per_round, c.clients));
}

// Keys of the two samplers by bandits; `mixing` is the meaning of 0.
Keys<Job> bandit_keys(const std::string& mixing) {
  return {kLearning,
          variant_key("paper: as printed; reference: as the OSMD sampler's authors ran it"), kBound,
          kHorizon,
          key("mixing", &Options::mixing, or_auto(above_to(0, 1)),
              "share of uniform draws; auto: " + mixing)};
}

const auto oort_key = keys_of<Job>(
    "sampler", [](Job& job) -> auto& { return job.sampler.oort; });

const Keys<Job> kOort{
    kPerRound,
    variant_key("paper: as printed; reference: as its authors ran it, in FedScale"),
    oort_key("exploration", &OortOptions::exploration, between(0, 1),
             "share of a draw that is of clients that never took part, before its decay"),
    oort_key("exploration-decay", &OortOptions::exploration_decay, above_to(0, 1),
             "factor on that share in every round, the first included"),
    oort_key("exploration-min", &OortOptions::exploration_min, "auto",
             "least such share; auto: 0.2, of the reference 0.3"),
    oort_key("pacer", &OortOptions::pacer, above_to(0, 100),
             "percentile of the clients' durations beyond which a client is penalised; it moves"),
    oort_key("pacer-step", &OortOptions::pacer_step, between(0, 100),
             "by which the percentile moves"),
    oort_key("pacer-every", &OortOptions::pacer_every, at_least(1), "rounds between two moves"),
    oort_key("penalty", &OortOptions::penalty, at_least(0),
             "exponent of the preferred duration over a slower client's; 0: no penalty"),
    oort_key("clip-quantile", &OortOptions::clip_quantile, "auto",
             "quantile of the clients' utilities that clips larger ones; auto: 0.95, of the "
             "reference 0.9"),
    oort_key("window", &OortOptions::window, at_least(1),
             "draws of new clients choose among so many times their number")};

const Family<SamplerKind> kSamplers{
    "samplers",
    "sampler.kind",
    "who takes part",
    chosen_by<&Job::sampler, &SamplerOptions::kind>,
    {{{"uniform", "every client as likely as any other", {kPerRound, kReplacement}},
      {.blind = true, .even = true, .distinct = true},
      [](const SamplerCase& c) {
        return c.options.learning.replacement
                   ? make_repeating_sampler(c.clients, c.options.per_round)
                   : make_uniform_sampler(c.clients, c.options.per_round);
      }},
     {{"weighted", "by the clients' samples", kDrawing},
      {.blind = true, .by_shares = true},
      make_by_shares,
      sample_shares},
     {{"formula",
       "by an expression of your own",
       {kLearning,
        key("formula", &Options::formula,
            "a client's probability up to a factor, such as sqrt(a) + 0.1 * mean(sqrt(a))")},
       [](const Job& job) {
         make_formula_sampler(job.sampler.formula, std::vector{1.0}, 1, true);
       }},
      {.by_samples = true},
      make_formula,
      sample_counts},
     {{"python", "a rule of your own, in Python", kOwnRule},
      {.by_samples = true, .own = true},
      make_own,
      sample_counts},
     {{"plugin", "a rule of your own, in a library", kOwnRule},
      {.by_samples = true, .own = true},
      make_own,
      sample_counts},
     {{"full", "every client in every round"},
      {.blind = true, .even = true, .distinct = true, .everyone = true},
      [](const SamplerCase& c) { return make_full_sampler(c.clients); }},
     {{"poisson",
       "each client on its own, so that the number varies",
       {key("per-round", &Options::per_round, at_least(1),
            "expected participants: each client takes part with probability per-round / clients")}},
      {.blind = true, .even = true, .distinct = true, .by_chance = true, .in_rounds = true},
      [](const SamplerCase& c) {
        return make_poisson_sampler(c.clients, c.options.per_round, seed_of(c));
      }},
     {{"cyclic", "all in turn, in one random order", kPerRound},
      {.blind = true, .even = true, .distinct = true, .in_rounds = true},
      [](const SamplerCase& c) {
        return make_cyclic_sampler(c.clients, c.options.per_round, seed_of(c));
      }},
     {{"osmd",
       "online mirror descent on the sampling variance (Zhao et al. 2025, Alg. 1)",
       {kOsmd, kHorizon,
        learning_key("eta", &Learning::eta, "auto", "learning rate; auto: by sampler.variation"),
        learning_key("variation", &Learning::variation, at_least(0),
                     "total variation of the best probabilities over the run that eta = auto is "
                     "set for (Corollary 7); 0: the smallest of adaptive-osmd's rates")}},
      {},
      [](const SamplerCase& c) { return make_osmd(c, OsmdKind::kFixed); }},
     {{"adaptive-osmd",
       "osmd by a grid of learning rates, weighed as experts (Alg. 5)",
       {kOsmd, kHorizon, kExperts}},
      {.has_experts = true},
      [](const SamplerCase& c) { return make_osmd(c, OsmdKind::kAdaptive); }},
     {{"osmd-doubling",
       "adaptive-osmd without a horizon (Alg. 6)",
       {kOsmd, kExperts,
        learning_key("restart", &Learning::restart,
                     "distribution from which each doubled block starts")}},
      {.has_experts = true},
      [](const SamplerCase& c) { return make_osmd(c, OsmdKind::kDoubling); }},
     {{"mabs",
       "multi-armed bandit (Salehi et al. 2017)",
       {bandit_keys("0.4"), kRateScale,
        learning_key("rate", &Learning::rate, "auto", "learning rate; auto: the paper's")}},
      {},
      make_learning<make_mabs_sampler>},
     {{"vrb", "variance reducer by bandits (Borsos et al. 2018)",
       bandit_keys("(clients/horizon)^(1/3)")},
      {},
      make_learning<make_vrb_sampler>},
     {{"avare",
       "by the last norms, with a falling floor (El Hanchi and Stephens 2020)",
       {kLearning,
        learning_key("c", &Learning::c, or_auto(above(0)),
                     "C: the larger, the longer near uniform; auto: clients"),
        learning_key("delta", &Learning::delta, above_to(0, 1),
                     "successive models differ by O(round^-delta)")}},
      {},
      make_learning<make_avare_sampler>},
     {{"optimal", "by the norms of all clients' updates, an oracle for studies", kLearning},
      {},
      [](const SamplerCase& c) {
        return make_optimal_sampler(c.clients, c.options.per_round, c.options.learning.replacement);
      }},
     {{"lipschitz",
       "by the smoothness of the clients' losses, of linear models (Needell et al. 2016)",
       kLearning},
      {.blind = true, .by_shares = true},
      make_by_shares,
      smoothness_shares},
     {{"oort", "large losses count, and slow clients less (Lai et al. 2021)", kOort,
       [](const Job& job) {
         make_oort_sampler(job.sampler.oort, job.sampler.learning.variant, std::vector{1.0}, 1);
       }},
      {.distinct = true, .by_samples = true, .squares = true, .biased = true},
      make_oort,
      sample_counts},
     {{"power-of-choice",
       "the largest losses of some candidates (Cho et al. 2022)",
       {kPerRound,
        key("candidates", &Options::candidates, or_auto(at_least(1)),
            "d, clients whose losses at the received model are compared; auto: 2 per-round")}},
      {.distinct = true, .by_samples = true, .compares = true, .biased = true},
      make_power_of_choice,
      sample_counts}}};

}  // namespace

std::optional<double> given_bound(const std::string& text) {
  if (value_of<AskedBound>(text)) return std::nullopt;
  if (const auto value = number_in(text); value && *value > 0) return value;
  throw InvalidArgument(fmt::format("unknown value '{}'", text), "sampler.a-max",
                        "known: auto, first-round, running, or a number above 0");
}

KindFamily sampler_family() { return listed(kSamplers); }

SamplerTraits sampler_traits(const SamplerOptions& options) {
  SamplerTraits traits = kSamplers.find(options.kind).traits;
  // These draw nobody twice.
  const bool may_repeat = !traits.everyone && !traits.biased && !traits.in_rounds;
  if (may_repeat && options.learning.replacement) traits.distinct = false;
  return traits;
}

std::function<std::unique_ptr<ClientSampler>()> sampler_maker(const Job& job,
                                                              const Federation& federation) {
  const SamplerKind& kind = kSamplers.find(job.sampler.kind);
  std::vector<double> shares;
  if (kind.shares) shares = kind.shares(job, federation);
  const int64_t clients = job.client.pooled ? 1 : federation.clients();
  SamplerOptions options = job.sampler;
  options.seed = static_cast<int64_t>(seed_of(job, options.seed));
  return [options, clients, shares] { return make_sampler(options, clients, shares); };
}

std::unique_ptr<ClientSampler> make_sampler(const Job& job, const Federation& federation) {
  return sampler_maker(job, federation)();
}

int64_t draws_of(const SamplerOptions& options, int64_t clients) {
  const SamplerTraits traits = sampler_traits(options);
  if (traits.everyone) return clients;
  const bool repeats = !traits.distinct && options.learning.replacement;
  return repeats ? options.per_round : std::min(options.per_round, clients);
}

std::unique_ptr<ClientSampler> make_sampler(const SamplerOptions& options, int64_t clients,
                                            std::span<const double> initial) {
  SamplerOptions fitting = options;
  fitting.per_round = draws_of(options, clients);
  return kSamplers.find(options.kind)
      .make({.options = fitting, .clients = clients, .initial = initial});
}

}  // namespace hanse
