#include "robust_aggregators.hpp"

#include <fmt/format.h>

#include "hanse/rules/aggregation/robust_rule.hpp"

namespace hanse {

namespace {

// The rule that the job chooses; null: it chooses none.
const RobustRule* chosen_rule(const AggregatorOptions& options) {
  if (options.kind == "fedavg" && !is_mapped_mean(options)) return nullptr;
  return find_robust_rule(options.kind);
}

RobustOptions robust_options(const Job& job, int64_t clients) {
  const auto seed = static_cast<uint64_t>(job.run.seed);
  return {{job.aggregator}, attacking_share(job.attack, clients, seed), seed, clients};
}

}  // namespace

std::vector<KindRow<Job>> robust_kinds() {
  std::vector<KindRow<Job>> rows;
  for (const RobustRule& rule : robust_rules()) {
    rows.push_back(
        {.name = rule.name,
         .summary = rule.summary,
         .keys = placed<Job>(Keys<AggregatorOptions>{robust_keys(), rule.keys}, &Job::aggregator)});
  }
  return rows;
}

bool is_robust(const AggregatorOptions& options) { return chosen_rule(options) != nullptr; }

bool is_mapped_mean(const AggregatorOptions& options) {
  return options.kind == "fedavg" && !options.before.list.empty();
}

std::unique_ptr<Aggregator> make_robust_aggregator(const Job& job, int64_t clients) {
  return make_robust(robust_options(job, clients));
}

bool trusts_participant(const AggregatorOptions& options) {
  const RobustRule* rule = chosen_rule(options);
  return rule != nullptr && rule->trusts;
}

std::optional<InvalidArgument> robust_shortfall(const Job& job, int64_t clients,
                                                int64_t participants) {
  if (!is_robust(job.aggregator) || job.aggregator.shortfall == Shortfall::kSkip) return {};
  const RobustOptions options = robust_options(job, clients);
  const int64_t f = options.byzantine.of(participants, options.attack_share);
  auto found = shortfall_of(options, participants, f);
  if (found || !trusts_participant(options) || participants >= clients) return found;
  return InvalidArgument(
      fmt::format("client {}, which {} trusts, has to take part in every round, and {} of {} "
                  "clients do",
                  options.pivot, options.kind, participants, clients),
      "aggregator.pivot", "sampler.kind = full, or aggregator.shortfall = skip");
}

}  // namespace hanse
