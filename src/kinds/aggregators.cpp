#include "hanse/kinds/aggregators.hpp"

#include <fmt/format.h>

#include "aggregator_kind.hpp"
#include "families.hpp"
#include "hanse/base/error.hpp"
#include "hanse/kinds/samplers.hpp"
#include "hanse/rules/aggregation/aaggff.hpp"
#include "hanse/rules/aggregation/aggregator.hpp"
#include "hanse/rules/aggregation/fair.hpp"
#include "hanse/rules/aggregation/multi_objective.hpp"
#include "hanse/rules/aggregation/quasi_newton.hpp"

namespace hanse {

namespace {

Estimator estimator(const AggregatorCase& c) { return parse_estimator(c.options.estimator); }
bool is_reference(const AggregatorCase& c) { return c.options.variant == "reference"; }

AaggffOptions aaggff_options(const AggregatorCase& c, double largest_response) {
  const AggregatorOptions& o = c.options;
  AaggffOptions result{.variant = parse_variant(o.variant),
                       .estimator = estimator(c),
                       .alpha = o.alpha,
                       .beta = o.beta};
  result.response = {.cdf = o.cdf, .c1 = o.c1, .c2 = o.c2 > 0 ? o.c2 : largest_response};
  if (result.response.c2 <= o.c1) {
    throw InvalidArgument(
        fmt::format("c1 {} is not below c2 {}, the default here", o.c1, result.response.c2),
        "aggregator.c1", "set aggregator.c2 too");
  }
  return result;
}

// Keys that several kinds share.

void weights_key(KindKeys& keys, AggregatorOptions& o) {
  keys.add_choice("aggregator.weights", o.weights, {"samples", "uniform"},
                  "share of a client: by its training samples, or the same for all");
}

void estimator_key(KindKeys& keys, AggregatorOptions& o) {
  keys.add_choice("aggregator.estimator", o.estimator, {"normalized", "unbiased"},
                  "normalized: coefficients sum to 1; unbiased: share times the draw's weight");
}

void loss_key(KindKeys& keys, AggregatorOptions& o) {
  keys.add("aggregator.loss", o.loss,
           "samples of the losses that the rule needs: full, or batches(n) for n mini-batches of "
           "client.batch samples");
}

constexpr const char* kVariants = "paper: as printed; reference: as the authors ran it";

void variant_key(KindKeys& keys, AggregatorOptions& o, const std::string& help = kVariants) {
  keys.add_choice("aggregator.variant", o.variant, {"paper", "reference", "corrected"}, help);
}

void response_keys(KindKeys& keys, AggregatorOptions& o, const std::string& largest) {
  estimator_key(keys, o);
  loss_key(keys, o);
  keys.add_choice("aggregator.cdf", o.cdf, cdf_names(), "transform of relative losses");
  keys.add("aggregator.c1", o.c1, at_least(0), "smallest response");
  keys.add("aggregator.c2", o.c2, at_least(0), "largest response; 0: " + largest);
}

void fedavg_keys(KindKeys& keys, Job& job) {
  weights_key(keys, job.aggregator);
  estimator_key(keys, job.aggregator);
}

void propfair_keys(KindKeys& keys, Job& job) {
  fedavg_keys(keys, job);
  variant_key(keys, job.aggregator);
  keys.add("aggregator.base", job.aggregator.base, above(0), "M of the local loss -log(M - F)");
}

void afl_keys(KindKeys& keys, Job& job) {
  estimator_key(keys, job.aggregator);
  loss_key(keys, job.aggregator);
  variant_key(keys, job.aggregator);
  keys.add("aggregator.rate", job.aggregator.rate, above(0), "step size of the ascent on weights");
}

void qfedavg_keys(KindKeys& keys, Job& job) {
  loss_key(keys, job.aggregator);
  keys.add("aggregator.q", job.aggregator.q, at_least(0), "fairness; 0: the unweighted mean");
  keys.add("aggregator.lipschitz", job.aggregator.lipschitz, at_least(0),
           "L of the updates L (theta - theta_i); 0: 1 / client.lr");
}

void term_keys(KindKeys& keys, Job& job) {
  loss_key(keys, job.aggregator);
  keys.add("aggregator.temperature", job.aggregator.temperature, above(0), "tilt to large losses");
}

void superquantile_keys(KindKeys& keys, Job& job) {
  loss_key(keys, job.aggregator);
  keys.add("aggregator.tail", job.aggregator.tail, above_to(0, 1),
           "share of the samples, those of the worst-off clients, whose mean loss is minimised; 1: "
           "fedavg");
}

void aaggff_s_keys(KindKeys& keys, Job& job) {
  AggregatorOptions& o = job.aggregator;
  response_keys(keys, o, "1/clients");
  variant_key(keys, o);
  keys.add("aggregator.alpha", o.alpha, at_least(0), "ridge; 0: 4 K L");
  keys.add("aggregator.beta", o.beta, at_least(0), "weight of the curvature; 0: 1/(4 L)");
}

void aaggff_d_keys(KindKeys& keys, Job& job) {
  response_keys(keys, job.aggregator, "the participation");
  variant_key(keys, job.aggregator,
              std::string(kVariants) + "; corrected: what the paper's lemmas need");
}

void fedmgda_keys(KindKeys& keys, Job& job) {
  weights_key(keys, job.aggregator);
  keys.add("aggregator.epsilon", job.aggregator.epsilon, at_least(0),
           "how far weights may lie from the usual ones; 0: not at all; 1: anywhere");
}

void fedlf_keys(KindKeys& keys, Job& job) {
  loss_key(keys, job.aggregator);
  variant_key(keys, job.aggregator);
}

void dqn_fed_keys(KindKeys& keys, Job& job) {
  AggregatorOptions& o = job.aggregator;
  ClientOptions& client = job.client;
  loss_key(keys, o);
  keys.add("aggregator.radius", o.radius, at_least(0), "longest step; 0: no limit");
  keys.add("aggregator.backtrack", o.backtrack, between(0, 60),
           "halvings of the step until no participant's loss rises; 0: off");
  keys.add_choice("client.rate", client.rate, {"l-bfgs", "gradient"},
                  "rate d of a client: of an L-BFGS step, or of a gradient step");
  keys.add("client.pairs", client.pairs, between(1, 1000),
           "m, pairs that client.rate = l-bfgs keeps");
  keys.add("client.rate-limit", client.rate_limit, at_least(0),
           "a client's rate is at most so many times its loss; 0: no limit");
  keys.add_choice("client.gradient", client.gradient, {"last", "mean", "update"},
                  "what a client sends after several local steps: the gradient at the last "
                  "iterate, the mean of all, or the update, lr times their sum");
}

void check_responses(const Job& job) {
  const AggregatorOptions& o = job.aggregator;
  if (o.c2 == 0 || o.c2 > o.c1) return;
  throw InvalidArgument(fmt::format("c2 {} is not above c1 {}", o.c2, o.c1), "aggregator.c2",
                        "responses lie in [c1, c2]");
}

void check_backtracking(const Job& job) {
  if (job.aggregator.backtrack == 0 || job.server.optimizer == "sgd") return;
  throw InvalidArgument(
      fmt::format("backtracking shortens plain steps, not those of {}", job.server.optimizer),
      "aggregator.backtrack", "use server.optimizer = sgd, or aggregator.radius");
}

std::string afl_notice(const Job& job) {
  if (sampler_traits(job.sampler).everyone) return "";
  return "afl under partial participation: a participant's loss counts with its draw's weight, "
         "the others' as 0 (aggregator.variant = reference: only the participants' weights move)";
}

void train_proportionally(const AggregatorOptions& o, ClientOptions& client) {
  client.propfair = {.base = o.base, .reference = o.variant == "reference"};
}

const std::vector<AggregatorKind> kAggregators{
    {{"fedavg", "by samples or all the same (McMahan et al. 2017)", fedavg_keys},
     {.plain_mean = true},
     [](const AggregatorCase& c) {
       return make_fedavg(c.options.weights, estimator(c), c.clients);
     }},
    {{"propfair", "fedavg of clients that minimise -log(M - F) (Zhang et al. 2022)", propfair_keys},
     {},
     [](const AggregatorCase& c) {
       return make_fedavg(c.options.weights, estimator(c), c.clients);
     },
     nullptr,
     train_proportionally},
    {{"afl", "ascent on the weights of the worst-off (Mohri et al. 2019)", afl_keys},
     {},
     [](const AggregatorCase& c) {
       return make_afl(c.options.rate, is_reference(c), estimator(c), c.clients);
     },
     nullptr,
     nullptr,
     afl_notice},
    {{"qfedavg", "updates weighted by F^q (Li et al. 2020)", qfedavg_keys},
     {},
     [](const AggregatorCase& c) {
       const double given = c.options.lipschitz;
       return make_qfedavg(c.options.q, given > 0 ? given : 1 / c.client_lr);
     }},
    {{"term", "weights ~ exp(t F) (Li et al. 2021)", term_keys},
     {},
     [](const AggregatorCase& c) { return make_term(c.options.temperature); }},
    {{"superquantile", "mean over the worst-off clients (Laguel et al. 2021)", superquantile_keys},
     {},
     [](const AggregatorCase& c) { return make_superquantile(c.options.tail); }},
    {{"aaggff-s", "online Newton step on the weights, for silos (Hahn et al. 2024)", aaggff_s_keys,
      check_responses},
     {},
     [](const AggregatorCase& c) {
       return make_aaggff_s(aaggff_options(c, 1.0 / static_cast<double>(c.clients)), c.clients);
     }},
    {{"aaggff-d", "entropic FTRL on the weights, for devices (Hahn et al. 2024)", aaggff_d_keys,
      check_responses},
     {.scaled_draws = true},
     [](const AggregatorCase& c) {
       return make_aaggff_d(aaggff_options(c, c.participation), c.clients, c.participation);
     }},
    {{"fedmgda+", "shortest combination of unit updates near the usual weights (Hu et al. 2022)",
      fedmgda_keys},
     {},
     [](const AggregatorCase& c) { return make_fedmgda(c.options.epsilon, c.options.weights); }},
    {{"fedlf", "layer-wise direction that lowers all losses, and fairly (Pan et al. 2024)",
      fedlf_keys},
     {},
     [](const AggregatorCase& c) { return make_fedlf(is_reference(c)); }},
    {{"dqn-fed",
      "lowers all losses at the rates of quasi-Newton steps (Mohajer Hamidi and Ye 2025)",
      dqn_fed_keys, check_backtracking},
     {},
     [](const AggregatorCase& c) {
       return make_dqn_fed({.radius = c.options.radius, .backtrack = c.options.backtrack});
     },
     make_quasi_newton},
};

}  // namespace

const AggregatorKind& aggregator_kind(const AggregatorOptions& options) {
  return find_kind(kAggregators, "aggregator.kind", options.kind);
}

KindFamily aggregator_family() {
  return {.name = "aggregators",
          .key = "aggregator.kind",
          .help = "how much each participant counts",
          .choice = [](Job& job) -> std::string& { return job.aggregator.kind; },
          .rows = rows_of(kAggregators)};
}

AggregatorTraits aggregator_traits(const AggregatorOptions& options) {
  return aggregator_kind(options).traits;
}

std::string aggregator_notice(const Job& job) {
  const AggregatorKind& kind = aggregator_kind(job.aggregator);
  return kind.notice ? kind.notice(job) : "";
}

std::unique_ptr<Aggregator> make_aggregator(const Job& job, int64_t clients, double participation) {
  auto rule = aggregator_kind(job.aggregator)
                  .make({.options = job.aggregator,
                         .clients = clients,
                         .participation = participation,
                         .client_lr = job.client.lr});
  // Draws with replacement leave clients out even when they are as many as the clients.
  const bool full = sampler_traits(job.sampler).distinct && participation == 1 &&
                    job.sampler.availability == "always";
  if (rule->needs().full && !full) {
    throw InvalidArgument(
        fmt::format("{} needs every client in every round, not a share of {} or draws with "
                    "replacement",
                    job.aggregator.kind, participation),
        "aggregator.kind", "use sampler.kind = full, or aaggff-d");
  }
  return rule;
}

}  // namespace hanse
