#include "hanse/kinds/samplers.hpp"

#include <algorithm>
#include <functional>

#include "families.hpp"
#include "hanse/client/smoothness.hpp"
#include "hanse/rules/sampling/basic.hpp"
#include "hanse/rules/sampling/learning.hpp"

namespace hanse {

namespace {

std::vector<double> sample_shares(const Federation& federation) {
  std::vector<double> lambda(static_cast<std::size_t>(federation.clients()));
  for (std::size_t c = 0; c < lambda.size(); ++c) {
    lambda[c] = static_cast<double>(federation.train(static_cast<int64_t>(c)).size()) /
                static_cast<double>(federation.train_samples());
  }
  return lambda;
}

// What a sampler is made from.
struct SamplerCase {
  const SamplerOptions& options;
  int64_t clients;
  std::span<const double> initial;  // [M] first probabilities or shares; empty: the kind's own
};

// Where the bound of the feedback comes from.
BoundSource bound_source(const SamplerCase& c) {
  constexpr int64_t kManyClients = 100000;
  const std::string& a_max = c.options.a_max;
  if (given_bound(a_max)) return BoundSource::kGiven;
  const bool first = a_max == "first-round" || (a_max == "auto" && c.clients <= kManyClients);
  return first ? BoundSource::kFirstRound : BoundSource::kRunning;
}

// `kind` is that of the osmd family.
LearningOptions learning_options(const SamplerCase& c, OsmdKind kind = OsmdKind::kFixed) {
  constexpr double kAuto = LearningOptions::kAuto;
  const SamplerOptions& o = c.options;
  return {.kind = kind,
          .variant = parse_variant(o.variant),
          .replacement = o.replacement,
          .alpha = o.alpha,
          .rate_scale = o.rate_scale,
          .bound = bound_source(c),
          .a_max = given_bound(o.a_max).value_or(0),
          .horizon = o.horizon,
          .eta = o.eta.value_or(kAuto),
          .gamma = o.gamma.value_or(kAuto),
          .restart_uniform = o.restart == "uniform",
          .mixing = o.mixing > 0 ? o.mixing : kAuto,
          .rate = o.rate.value_or(kAuto),
          .c = o.c > 0 ? o.c : kAuto,
          .delta = o.delta};
}

std::unique_ptr<ClientSampler> make_osmd(const SamplerCase& c, OsmdKind kind) {
  return make_osmd_sampler(learning_options(c, kind), c.clients, c.options.per_round, c.initial);
}

std::unique_ptr<ClientSampler> make_by_shares(const SamplerCase& c) {
  return make_weighted_sampler(c.initial, c.options.per_round, c.options.replacement);
}

// [M] for the sampler's first probabilities.
std::vector<double> smoothness_shares(const Job& job, const Federation& federation) {
  auto shares = smoothness_constants(federation, job.model);  // lambda_m L_m
  if (job.aggregator.weights == "uniform") return shares;
  const auto lambda = sample_shares(federation);
  std::transform(shares.begin(), shares.end(), lambda.begin(), shares.begin(), std::multiplies<>());
  return shares;
}

std::vector<double> shares_by_samples(const Job&, const Federation& federation) {
  return sample_shares(federation);
}

// Keys that several kinds share.

void per_round_key(KindKeys& keys, SamplerOptions& o) {
  keys.add("sampler.per-round", o.per_round, at_least(1),
           "K, draws a round; when no more clients are there, they all take part");
}

void drawing_keys(KindKeys& keys, SamplerOptions& o) {
  per_round_key(keys, o);
  keys.add("sampler.replacement", o.replacement,
           "draw with replacement; a client drawn twice trains once and counts twice");
}

void importance_key(KindKeys& keys, Job& job) {
  keys.add_choice("aggregator.weights", job.aggregator.weights, {"samples", "uniform"},
                  "share of a client in the objective whose gradient the sampler estimates: by "
                  "its training samples, or the same for all");
}

void variant_key(KindKeys& keys, SamplerOptions& o, const std::string& help) {
  keys.add_choice("sampler.variant", o.variant, {"paper", "reference", "corrected"}, help);
}

void rate_scale_key(KindKeys& keys, SamplerOptions& o) {
  keys.add("sampler.rate-scale", o.rate_scale, above(0), "factor on the feedback in the updates");
}

void bound_key(KindKeys& keys, SamplerOptions& o) {
  keys.add("sampler.a-max", o.a_max,
           "bound of the feedback: first-round (all clients train once before it), running, or a "
           "number; auto: first-round up to 100000 clients, else running");
}

void horizon_key(KindKeys& keys, SamplerOptions& o) {
  keys.add("sampler.horizon", o.horizon, at_least(0),
           "rounds that the learning rates are set for; 0: run.rounds of the first start");
}

void uniform_keys(KindKeys& keys, Job& job) { per_round_key(keys, job.sampler); }

void share_keys(KindKeys& keys, Job& job) { drawing_keys(keys, job.sampler); }

void learning_keys(KindKeys& keys, Job& job) {
  drawing_keys(keys, job.sampler);
  importance_key(keys, job);
}

void osmd_family_keys(KindKeys& keys, Job& job) {
  SamplerOptions& o = job.sampler;
  learning_keys(keys, job);
  keys.add("sampler.alpha", o.alpha, above_to(0, 1),
           "probabilities are at least alpha / clients; 1: uniform");
  variant_key(keys, o,
              "paper: as printed; reference: as its authors ran it; corrected: gamma free of the "
              "loss's unit");
  rate_scale_key(keys, o);
  bound_key(keys, o);
}

void experts_key(KindKeys& keys, SamplerOptions& o) {
  keys.add("sampler.gamma", o.gamma, "auto",
           "learning rate of the experts' weights; auto: Theorem 8");
}

void osmd_keys(KindKeys& keys, Job& job) {
  osmd_family_keys(keys, job);
  horizon_key(keys, job.sampler);
  keys.add("sampler.eta", job.sampler.eta, "auto",
           "learning rate; auto: the smallest of adaptive-osmd's");
}

void adaptive_keys(KindKeys& keys, Job& job) {
  osmd_family_keys(keys, job);
  horizon_key(keys, job.sampler);
  experts_key(keys, job.sampler);
}

void doubling_keys(KindKeys& keys, Job& job) {
  osmd_family_keys(keys, job);
  experts_key(keys, job.sampler);
  keys.add_choice("sampler.restart", job.sampler.restart, {"last", "uniform"},
                  "distribution from which each doubled block starts");
}

// Of the two samplers by bandits; `mixing` is what 0 stands for.
void bandit_keys(KindKeys& keys, Job& job, const std::string& mixing) {
  SamplerOptions& o = job.sampler;
  learning_keys(keys, job);
  variant_key(keys, o, "paper: as printed; reference: as the OSMD sampler's authors ran it");
  bound_key(keys, o);
  horizon_key(keys, o);
  keys.add("sampler.mixing", o.mixing, between(0, 1), "share of uniform draws; 0: " + mixing);
}

void mabs_keys(KindKeys& keys, Job& job) {
  bandit_keys(keys, job, "0.4");
  rate_scale_key(keys, job.sampler);
  keys.add("sampler.rate", job.sampler.rate, "auto", "learning rate; auto: the paper's");
}

void vrb_keys(KindKeys& keys, Job& job) { bandit_keys(keys, job, "(clients/horizon)^(1/3)"); }

void avare_keys(KindKeys& keys, Job& job) {
  SamplerOptions& o = job.sampler;
  learning_keys(keys, job);
  keys.add("sampler.c", o.c, at_least(0), "C: the larger, the longer near uniform; 0: clients");
  keys.add("sampler.delta", o.delta, above_to(0, 1), "successive models differ by O(round^-delta)");
}

struct SamplerKind {
  KindRow row;
  SamplerTraits traits;
  std::unique_ptr<ClientSampler> (*make)(const SamplerCase&);
  // [M] of samplers by shares; null: the sampler has none.
  std::vector<double> (*shares)(const Job&, const Federation&) = nullptr;
};

const std::vector<SamplerKind> kSamplers{
    {{"uniform", "a uniform subset, without replacement", uniform_keys},
     {.blind = true, .distinct = true},
     [](const SamplerCase& c) { return make_uniform_sampler(c.clients, c.options.per_round); }},
    {{"weighted", "by the clients' samples", share_keys},
     {.blind = true, .by_shares = true},
     make_by_shares,
     shares_by_samples},
    {{"full", "every client in every round", nullptr},
     {.blind = true, .distinct = true, .everyone = true},
     [](const SamplerCase& c) { return make_full_sampler(c.clients); }},
    {{"osmd", "online mirror descent on the sampling variance (Zhao et al. 2025, Alg. 1)",
      osmd_keys},
     {},
     [](const SamplerCase& c) { return make_osmd(c, OsmdKind::kFixed); }},
    {{"adaptive-osmd", "osmd by a grid of learning rates, weighed as experts (Alg. 5)",
      adaptive_keys},
     {.has_experts = true},
     [](const SamplerCase& c) { return make_osmd(c, OsmdKind::kAdaptive); }},
    {{"osmd-doubling", "adaptive-osmd without a horizon (Alg. 6)", doubling_keys},
     {.has_experts = true},
     [](const SamplerCase& c) { return make_osmd(c, OsmdKind::kDoubling); }},
    {{"mabs", "multi-armed bandit (Salehi et al. 2017)", mabs_keys},
     {},
     [](const SamplerCase& c) {
       return make_mabs_sampler(learning_options(c), c.clients, c.options.per_round);
     }},
    {{"vrb", "variance reducer by bandits (Borsos et al. 2018)", vrb_keys},
     {},
     [](const SamplerCase& c) {
       return make_vrb_sampler(learning_options(c), c.clients, c.options.per_round);
     }},
    {{"avare", "by the last norms, with a falling floor (El Hanchi and Stephens 2020)", avare_keys},
     {},
     [](const SamplerCase& c) {
       return make_avare_sampler(learning_options(c), c.clients, c.options.per_round);
     }},
    {{"optimal", "by the norms of all clients' updates, an oracle for studies", learning_keys},
     {},
     [](const SamplerCase& c) {
       return make_optimal_sampler(c.clients, c.options.per_round, c.options.replacement);
     }},
    {{"lipschitz",
      "by the smoothness of the clients' losses, of linear models (Needell et al. 2016)",
      learning_keys},
     {.blind = true, .by_shares = true},
     make_by_shares,
     smoothness_shares},
};

const SamplerKind& kind_of(const SamplerOptions& options) {
  return find_kind(kSamplers, "sampler.kind", options.kind);
}

}  // namespace

KindFamily sampler_family() {
  return {.name = "samplers",
          .key = "sampler.kind",
          .help = "who takes part",
          .choice = [](Job& job) -> std::string& { return job.sampler.kind; },
          .rows = rows_of(kSamplers)};
}

SamplerTraits sampler_traits(const SamplerOptions& options) { return kind_of(options).traits; }

std::unique_ptr<ClientSampler> make_sampler(const Job& job, const Federation& federation) {
  const SamplerKind& kind = kind_of(job.sampler);
  std::vector<double> shares;
  if (kind.shares) shares = kind.shares(job, federation);
  return make_sampler(job.sampler, job.client.pooled ? 1 : federation.clients(), shares);
}

std::unique_ptr<ClientSampler> make_sampler(const SamplerOptions& options, int64_t clients,
                                            std::span<const double> initial) {
  return kind_of(options).make({.options = options, .clients = clients, .initial = initial});
}

}  // namespace hanse
