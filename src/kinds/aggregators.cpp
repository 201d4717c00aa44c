#include "hanse/kinds/aggregators.hpp"

#include <fmt/format.h>

#include "families.hpp"
#include "hanse/base/error.hpp"
#include "hanse/kinds/own_rules.hpp"
#include "hanse/kinds/samplers.hpp"
#include "hanse/rules/aggregation/aaggff.hpp"
#include "hanse/rules/aggregation/fair.hpp"
#include "hanse/rules/aggregation/multi_objective.hpp"
#include "hanse/rules/aggregation/quasi_newton.hpp"
#include "hanse/rules/aggregation/robust_rule.hpp"
#include "robust_aggregators.hpp"

namespace hanse {

namespace {

struct AggregatorKind : KindRow<Job> {
  AggregatorTraits traits;
  std::unique_ptr<Aggregator> (*make)(const Job& job, int64_t clients,
                                      double participation) = nullptr;
  std::string (*notice)(const Job& job) = nullptr;  // aggregator_notice(); null: none
};

bool is_reference(const AggregatorOptions& options) {
  return options.variant == Variant::kReference;
}

std::unique_ptr<Aggregator> make_mean(const Job& job, int64_t clients, double) {
  const AggregatorOptions& o = job.aggregator;
  if (is_mapped_mean(o)) return make_robust_aggregator(job, clients);
  if (o.weights == ClientWeights::kCapped) {
    if (o.capped_sum == 0 && o.estimator != Estimator::kNormalized) {
      throw InvalidArgument("the sum of all clients' capped weights is not known",
                            "aggregator.estimator", "normalized, which does not need it");
    }
    return make_capped_fedavg(o.cap, std::max(o.capped_sum, 1.0), o.estimator);
  }
  return make_fedavg(job.aggregator.weights, job.aggregator.estimator, clients);
}

AaggffOptions aaggff_options(const Job& job, double largest_response) {
  const AggregatorOptions& o = job.aggregator;
  AaggffOptions result{.variant = o.variant,
                       .estimator = o.estimator,
                       .alpha = o.alpha,
                       .beta = o.beta,
                       .lipschitz = o.lipschitz};
  result.response = {.cdf = o.cdf, .c1 = o.c1, .c2 = o.c2 > 0 ? o.c2 : largest_response};
  if (result.response.c2 <= o.c1) {
    throw InvalidArgument(
        fmt::format("c1 {} is not below c2 {}, the default here", o.c1, result.response.c2),
        "aggregator.c1", "set aggregator.c2 too");
  }
  return result;
}

void check_responses(const Job& job) {
  const AggregatorOptions& o = job.aggregator;
  if (o.c2 == 0 || o.c2 > o.c1) return;
  throw InvalidArgument(fmt::format("c2 {} is not above c1 {}", o.c2, o.c1), "aggregator.c2",
                        "responses lie in [c1, c2]");
}

std::string afl_notice(const Job& job) {
  if (sampler_traits(job.sampler).everyone) return "";
  return "afl under partial participation: a participant's loss counts with its draw's weight, "
         "the others' as 0 (aggregator.variant = reference: only the participants' weights move)";
}

std::string lowering_notice(const Job& job) {
  if (job.aggregator.backtrack == 0 || job.model.precision != Precision::kBfloat16) return "";
  return "losses in bfloat16 hardly change with short steps: aggregator.backtrack may find no step "
         "where it finds one in float32";
}

void train_proportionally(const AggregatorOptions& o, ClientOptions& client) {
  client.propfair = {.base = o.base, .reference = is_reference(o)};
}

void refuse_cap(const Job& job) {
  if (job.aggregator.weights != ClientWeights::kCapped) return;
  throw InvalidArgument(fmt::format("{} has no capped weights", job.aggregator.kind),
                        "aggregator.weights", "samples or uniform");
}

void check_cap(const Job& job) {
  const AggregatorOptions& o = job.aggregator;
  if (o.weights != ClientWeights::kCapped) return;
  if (o.cap == 0) {
    throw InvalidArgument("weights = capped need the samples from which on all count the same",
                          "aggregator.cap", "aggregator.cap = 100, for example");
  }
  if (is_mapped_mean(o)) refuse_cap(job);
}

// Keys that several kinds share.

using Options = AggregatorOptions;
const auto key = keys_of<Job>("aggregator", &Job::aggregator);
const auto client_key = keys_of<Job>("client", &Job::client);

const Keys<Job> kWeights = key("weights", &Options::weights,
                               "share of a client: by its training samples, or the same for all");
const Keys<Job> kCap =
    key("cap", &Options::cap, Range{.low = 0, .low_open = true, .word = "none"},
        "weights = capped: samples from which on clients count the same, those with fewer by their "
        "samples (McMahan et al. 2018)");
const Keys<Job> kEstimator =
    key("estimator", &Options::estimator,
        "normalized: coefficients sum to 1; unbiased: share times the draw's weight");
const Keys<Job> kLoss =
    key("loss", &Options::loss,
        "samples of the losses that the rule needs, and with client.clustered each client: full, "
        "or batches(n) for n mini-batches of client.batch samples");

ClientWeights& weights_of(Job& job) { return job.aggregator.weights; }
Variant& variant_of(Job& job) { return job.aggregator.variant; }
double& beta_of(Job& job) { return job.aggregator.beta; }

Keys<Job> variant_key(const std::string& more = "") {
  return key("variant", &Options::variant,
             "paper: as printed; reference: as the authors ran it" + more);
}

Keys<Job> response_keys(const std::string& largest) {
  return {kEstimator, kLoss, key("cdf", &Options::cdf, "transform of relative losses"),
          key("c1", &Options::c1, at_least(0), "smallest response"),
          key("c2", &Options::c2, or_auto(above(0)), "largest response; auto: " + largest)};
}

// Keys of the shortest step that lowers every loss at the rate that its client asks for.
const Keys<Job> kLowering{
    kLoss,
    key("radius", &Options::radius, at_least(0), "longest step; 0: no limit"),
    key("backtrack", &Options::backtrack, between(0, 60),
        "halvings of the step until no participant's loss rises; 0: off"),
    client_key("rate", &ClientOptions::rate,
               "rate d of a client: of an L-BFGS step, of a gradient step, or a power of its "
               "loss"),
    client_key("rate-power", &ClientOptions::rate_power, at_least(0),
               "power of client.rate = loss; the larger, the more large losses fall"),
    client_key("gradient", &ClientOptions::gradient,
               "what a client sends after several local steps: the gradient at the last "
               "iterate, the mean of all, or the update, lr times their sum; auto: update "
               "where some client makes more than one step, else last")};

const Keys<Job> kOwnRule = own_rule_keys(keys_of<Job>(
    "aggregator", [](Job& job) -> auto& { return job.aggregator.own; }));

std::unique_ptr<Aggregator> make_own(const Job& job, int64_t clients, double) {
  return make_own_aggregator(own_rule("aggregator", job.aggregator.kind, job.aggregator.own),
                             clients);
}

LoweringRate& rate_of(Job& job) { return job.client.rate; }

std::unique_ptr<Aggregator> make_lowering(const Job& job, int64_t, double) {
  return make_dqn_fed(job.aggregator.radius, job.aggregator.backtrack);
}

const Family<AggregatorKind> kPlain{
    "aggregators",
    "aggregator.kind",
    "how much each participant counts",
    chosen_by<&Job::aggregator, &AggregatorOptions::kind>,
    {{{"fedavg",
       "by samples or all the same (McMahan et al. 2017)",
       {kWeights, kCap, kEstimator, placed<Job>(robust_keys(), &Job::aggregator)},
       check_cap},
      {.plain_mean = true},
      make_mean},
     {{"propfair",
       "fedavg of clients that minimise -log(M - F) (Zhang et al. 2022)",
       {kWeights, kEstimator, variant_key(),
        key("base", &Options::base, above(0), "M of the local loss -log(M - F)")},
       refuse_cap},
      {.instruct = train_proportionally},
      make_mean},
     {{"afl",
       "ascent on the weights of the worst-off (Mohri et al. 2019)",
       {kEstimator, kLoss, variant_key(),
        key("rate", &Options::rate, above(0), "step size of the ascent on weights")}},
      {},
      [](const Job& job, int64_t clients, double) {
        return make_afl(job.aggregator.rate, is_reference(job.aggregator), job.aggregator.estimator,
                        clients);
      },
      afl_notice},
     {{"qfedavg",
       "updates weighted by F^q (Li et al. 2020)",
       {kLoss, kWeights, key("q", &Options::q, at_least(0), "fairness; 0: the weighted mean"),
        key("lipschitz", &Options::lipschitz, or_auto(above(0)),
            "L of the updates L (theta - theta_i); auto: 1 / client.lr")},
       refuse_cap},
      {},
      [](const Job& job, int64_t, double) {
        const AggregatorOptions& o = job.aggregator;
        return make_qfedavg(o.q, o.lipschitz > 0 ? o.lipschitz : 1 / job.client.lr, o.weights);
      }},
     {{"term",
       "weights ~ exp(t F) (Li et al. 2021)",
       {kLoss, kWeights,
        key("temperature", &Options::temperature, above(0), "tilt to large losses")},
       refuse_cap},
      {},
      [](const Job& job, int64_t, double) {
        return make_term(job.aggregator.temperature, job.aggregator.weights);
      }},
     {{"superquantile",
       "mean over the worst-off clients (Laguel et al. 2021)",
       {kLoss, key("tail", &Options::tail, above_to(0, 1),
                   "share of the samples, those of the worst-off clients, whose mean loss is "
                   "minimised; 1: fedavg")}},
      {},
      [](const Job& job, int64_t, double) { return make_superquantile(job.aggregator.tail); }},
     {{"formula",
       "by an expression of your own",
       {kLoss, key("formula", &Options::formula,
                   "a participant's value, such as n * exp(2 * F); the coefficients are the values "
                   "divided by their sum")},
       [](const Job& job) { make_by_formula(job.aggregator.formula, 1); }},
      {},
      [](const Job& job, int64_t clients, double) {
        return make_by_formula(job.aggregator.formula, clients);
      }},
     {{"python", "a rule of your own, in Python", {kLoss, kOwnRule}}, {}, make_own},
     {{"plugin", "a rule of your own, in a library", {kLoss, kOwnRule}}, {}, make_own},
     {{"aaggff-s",
       "online Newton step on the weights, for silos (Hahn et al. 2024)",
       {response_keys("1/clients"), variant_key(),
        key("alpha", &Options::alpha, or_auto(above(0)), "ridge; auto: 4 K L"),
        key("beta", &Options::beta, or_auto(above(0)), "weight of the curvature; auto: 1/(4 L)")},
       check_responses},
      {},
      [](const Job& job, int64_t clients, double) {
        return make_aaggff_s(aaggff_options(job, 1.0 / static_cast<double>(clients)), clients);
      }},
     {{"aaggff-d",
       "entropic FTRL on the weights, for devices (Hahn et al. 2024)",
       {response_keys("the participation"),
        with_default(variant_key("; corrected: estimates by means of the round before, as the "
                                 "paper's lemma needs"),
                     &variant_of, Variant::kCorrected),
        key("lipschitz", &Options::lipschitz, or_auto(above(0)),
            "L, bound of the gradients; a smaller one makes longer steps; auto: the paper's")},
       check_responses},
      {.scaled_draws = true},
      [](const Job& job, int64_t clients, double participation) {
        return make_aaggff_d(aaggff_options(job, participation), clients, participation);
      }},
     {{"fedmgda+",
       "shortest combination of unit updates near the usual weights (Hu et al. 2022)",
       {with_default(kWeights, &weights_of, ClientWeights::kUniform),
        key("epsilon", &Options::epsilon, at_least(0),
            "how far weights may lie from the usual ones; 0: not at all; 1: anywhere")},
       refuse_cap},
      {},
      [](const Job& job, int64_t, double) {
        return make_fedmgda(job.aggregator.epsilon, job.aggregator.weights);
      }},
     {{"fedlf",
       "layer-wise direction that lowers all losses, and fairly (Pan et al. 2024)",
       {kLoss, variant_key(),
        key("absent", &Options::absent,
            "window: clients that took part not long ago count with their last updates, "
            "which the ranks keep")}},
      {},
      [](const Job& job, int64_t, double) {
        return make_fedlf({.reference = is_reference(job.aggregator),
                           .window = job.aggregator.absent == AbsentClients::kWindow});
      }},
     {{"dqn-fed",
       "lowers all losses at the rates of quasi-Newton steps (Mohajer Hamidi and Ye 2025)",
       {kLowering,
        client_key("pairs", &ClientOptions::pairs, between(1, 1000),
                   "m, pairs that client.rate = l-bfgs keeps"),
        client_key("rate-limit", &ClientOptions::rate_limit, at_least(0),
                   "a client's rate is at most so many times its loss; 0: no limit")}},
      {.lowers = true},
      make_lowering,
      lowering_notice},
     {{"adafed",
       "lowers all losses, at rates that are powers of them (Mohajer Hamidi and Yang 2024)",
       with_default(kLowering, &rate_of, LoweringRate::kLoss)},
      {.lowers = true},
      make_lowering,
      lowering_notice},
     {{"fedheal",
       "by how far clients move the model, of entries with steady signs (Chen et al. 2024)",
       {key("threshold", &Options::threshold, from_below(0, 1),
            "an entry of an update counts when the client has moved it in this direction in more "
            "than this share of its rounds"),
        with_default(key("beta", &Options::beta, above_to(0, 1),
                         "how fast a client's weight follows its share of the distances"),
                     &beta_of, 0.4)}},
      {},
      [](const Job& job, int64_t clients, double) {
        return make_fedheal(job.aggregator.threshold, job.aggregator.beta, clients);
      }}}};

// The family with the rows of the robust rules.
Family<AggregatorKind> with_robust(Family<AggregatorKind> family) {
  for (KindRow<Job>& row : robust_kinds()) {
    AggregatorKind kind;
    static_cast<KindRow<Job>&>(kind) = std::move(row);
    kind.make = [](const Job& job, int64_t clients, double) {
      return make_robust_aggregator(job, clients);
    };
    family.rows.push_back(std::move(kind));
  }
  return family;
}

const Family<AggregatorKind> kAggregators = with_robust(kPlain);

}  // namespace

KindFamily aggregator_family() { return listed(kAggregators); }

const AggregatorTraits& aggregator_traits(const AggregatorOptions& options) {
  static const AggregatorTraits kLooksAtUpdates{};
  if (is_mapped_mean(options)) return kLooksAtUpdates;
  return kAggregators.find(options.kind).traits;
}

std::string aggregator_notice(const Job& job) {
  const AggregatorKind& kind = kAggregators.find(job.aggregator.kind);
  return kind.notice ? kind.notice(job) : "";
}

void require_participants(const Job& job, int64_t clients, int64_t participants) {
  if (const auto found = robust_shortfall(job, clients, participants)) throw *found;
}

std::unique_ptr<Aggregator> make_rule_of_kind(const Job& job, int64_t clients,
                                              double participation) {
  return kAggregators.find(job.aggregator.kind).make(job, clients, participation);
}

void require_attendance(const Job& job, const AggregatorNeeds& needs, double participation) {
  // Draws with replacement leave clients out even when they are as many as the clients.
  const SamplerTraits sampler = sampler_traits(job.sampler);
  const bool full = sampler.distinct && !sampler.by_chance && participation == 1 &&
                    is_always(job.sampler.availability);
  if (full || !needs.full) return;
  throw InvalidArgument(
      fmt::format("{} needs every client in every round, not a share of {} or draws with "
                  "replacement",
                  job.aggregator.kind, participation),
      "aggregator.kind", "use sampler.kind = full, or aaggff-d");
}

std::unique_ptr<Aggregator> make_aggregator(const Job& job, int64_t clients, double participation) {
  auto rule = make_rule_of_kind(job, clients, participation);
  require_attendance(job, rule->needs(), participation);
  return rule;
}

}  // namespace hanse
