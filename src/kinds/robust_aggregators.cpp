#include "robust_aggregators.hpp"

#include "hanse/base/choice.hpp"
#include "hanse/rules/aggregation/robust_rule.hpp"

namespace hanse {

namespace {

using Options = AggregatorOptions;
const auto key = [] { return keys_of<Job>("aggregator", &Job::aggregator); };

double& radius_of(Job& job) { return job.aggregator.radius; }
int64_t& iterations_of(Job& job) { return job.aggregator.iterations; }

Keys<Job> variant_key() {
  return key()("variant", &Options::variant,
               "paper: as printed; reference: as ByzFL runs it, with PyTorch; corrected: as paper");
}

Keys<Job> iterations_key() {
  return key()("iterations", &Options::iterations, between(1, 10000), "steps of the iteration");
}

std::optional<RobustKind> robust_kind(const Options& options) {
  if (is_mapped_mean(options)) return RobustKind::kMean;
  const auto kind = value_of<RobustKind>(options.kind);
  return kind == RobustKind::kMean ? std::nullopt : kind;
}

RobustOptions robust_options(const Job& job, RobustKind kind, int64_t clients) {
  const Options& o = job.aggregator;
  return {.kind = kind,
          .variant = o.variant,
          .byzantine = o.byzantine,
          .attack_share = attacking_share(job.attack, clients, static_cast<uint64_t>(job.run.seed)),
          .keep = o.keep,
          .iterations = o.iterations,
          .smoothing = o.smoothing,
          .radius = o.radius,
          .pivot = o.pivot,
          .before = o.before,
          .shortfall = o.shortfall,
          .seed = static_cast<uint64_t>(job.run.seed),
          .weights = o.weights,
          .estimator = o.estimator,
          .clients = clients};
}

std::vector<KindRow<Job>> rows_by_products() {
  return {
      {"krum",
       "robust: the update nearest to its neighbours (Blanchard et al. 2017)",
       {robust_keys(), variant_key()}},
      {"multi-krum",
       "robust: mean of the updates nearest to their neighbours (Blanchard et al. 2017)",
       {robust_keys(), variant_key(),
        key()("keep", &Options::keep, or_auto(at_least(1)),
              "updates in the mean; auto: the participants but f")}},
      {"mda", "robust: mean of the set of least diameter (El Mhamdi et al. 2018)", robust_keys()},
      {"monna",
       "robust: mean of the updates nearest to a trusted one (Farhadkhani et al. 2023)",
       {robust_keys(), key()("pivot", &Options::pivot, at_least(0),
                             "client that is trusted; it has to take part in every round")}},
      {"geometric-median",
       "robust: the point of least distances (RFA, Pillutla et al. 2022)",
       {robust_keys(), iterations_key(),
        key()("smoothing", &Options::smoothing, above(0), "distances below this one count as it")}},
      {"centered-clipping",
       "robust: the last step and clipped differences from it (Karimireddy et al. 2021)",
       {robust_keys(), with_default(iterations_key(), &iterations_of, 1),
        with_default(key()("radius", &Options::radius, above(0), "longest difference that counts"),
                     &radius_of, 100)}},
      {"fltrust",
       "robust: by the cosine to the server's own update (Cao et al. 2021)",
       {robust_keys(),
        key()(
            "root", &Options::root, at_least(0),
            "which of the clients kept out of training (federation.held-out) has the samples that "
            "the server trusts and trains on: 0 is the first of them")}},
      {"smea", "robust: mean of the set of least variance (Allouah et al. 2023)", robust_keys()},
      {"caf",
       "robust: mean without what spreads most, step by step (Allouah et al. 2025)",
       {robust_keys(), variant_key()}}};
}

std::vector<KindRow<Job>> rows_by_columns() {
  return {{"median", "robust: the median of each coordinate", {robust_keys(), variant_key()}},
          {"trimmed-mean",
           "robust: each coordinate's mean without its f least and f largest (Yin et al. 2018)",
           robust_keys()},
          {"meamed",
           "robust: each coordinate's mean around its median (Xie et al. 2018)",
           {robust_keys(), variant_key()}},
          {"bulyan",
           "robust: Krum's choice, then the mean around the median (El Mhamdi et al. 2018)",
           {robust_keys(), variant_key()}}};
}

}  // namespace

Keys<Job> robust_keys() {
  return {key()("byzantine", &Options::byzantine,
                "f, how many participants of a round may send anything: a number, or a share below "
                "0.5, rounded up; auto: the share of the clients that attack"),
          key()("before", &Options::before,
                "what is made of the updates first, in this order: clip(c) to a longest length, "
                "arc (the longest ones clipped), nnm (each mixed with its neighbours), "
                "bucketing(s), means of s; or none"),
          key()("shortfall", &Options::shortfall,
                "a round with fewer participants than the rule needs: an error, or no step")};
}

std::vector<KindRow<Job>> robust_kinds() {
  std::vector<KindRow<Job>> rows = rows_by_products();
  for (KindRow<Job>& row : rows_by_columns()) rows.push_back(std::move(row));
  return rows;
}

bool is_robust(const AggregatorOptions& options) { return robust_kind(options).has_value(); }

bool is_mapped_mean(const AggregatorOptions& options) {
  return options.kind == "fedavg" && !options.before.list.empty();
}

std::unique_ptr<Aggregator> make_robust_aggregator(const Job& job, int64_t clients) {
  return make_robust(robust_options(job, robust_kind(job.aggregator).value(), clients));
}

std::string robust_shortfall(const Job& job, int64_t clients, int64_t participants) {
  const auto kind = robust_kind(job.aggregator);
  if (!kind || job.aggregator.shortfall == Shortfall::kSkip) return "";
  const RobustOptions options = robust_options(job, *kind, clients);
  const int64_t f = options.byzantine.of(participants, options.attack_share);
  return shortfall_of(options, participants, f);
}

}  // namespace hanse
